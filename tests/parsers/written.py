"""Texts in the forms of tools of which nothing is recorded: the forms are theirs, values are not.

Sources of the forms: drivers/net/bonding/bond_procfs.c and drivers/md/md.c of the kernel, Detail.c
of mdadm, nvme-print-json.c of nvme-cli, rdma/stat.c of iproute2, rpm(8).
"""

from __future__ import annotations

_PORT = """
Slave Interface: {name}
MII Status: up
Speed: 25000 Mbps
Duplex: full
Link Failure Count: 2
Permanent HW addr: 02:00:00:00:00:{last}
Slave queue ID: 0
Aggregator ID: 1
Actor Churn State: none
Partner Churn State: none
Actor Churned Count: 0
Partner Churned Count: 0
details actor lacp pdu:
    system priority: 65535
    system mac address: 02:00:00:00:00:aa
    port key: 21
    port priority: 255
    port number: 1
    port state: 61
details partner lacp pdu:
    system priority: 32768
    system mac address: 02:00:00:00:00:bb
    oper key: 7
    port priority: 32768
    port number: 101
    port state: 63
"""
BOND_LACP = (
    """Ethernet Channel Bonding Driver: v6.8.0-71-generic

Bonding Mode: IEEE 802.3ad Dynamic link aggregation
Transmit Hash Policy: layer3+4 (1)
MII Status: up
MII Polling Interval (ms): 100
Up Delay (ms): 0
Down Delay (ms): 0
Peer Notification Delay (ms): 0

802.3ad info
LACP active: on
LACP rate: fast
Min links: 0
Aggregator selection policy (ad_select): stable
System priority: 65535
System MAC address: 02:00:00:00:00:aa
Active Aggregator Info:
\tAggregator ID: 1
\tNumber of ports: 2
\tActor Key: 21
\tPartner Key: 7
\tPartner Mac Address: 02:00:00:00:00:BB
"""
    + _PORT.format(name="ens1f0np0", last="01")
    + _PORT.format(name="ens1f1np1", last="02")
)
BOND_BACKUP = """Ethernet Channel Bonding Driver: v5.14.0-427.el9.x86_64

Bonding Mode: fault-tolerance (active-backup) (fail_over_mac active)
Primary Slave: None
Currently Active Slave: eno1
MII Status: up
MII Polling Interval (ms): 0
Up Delay (ms): 0
Down Delay (ms): 0
Peer Notification Delay (ms): 0

Slave Interface: eno1
MII Status: up
Speed: 1000 Mbps
Duplex: full
Link Failure Count: 0
Permanent HW addr: 02:00:00:00:00:03
Slave queue ID: 0

Slave Interface: eno2
MII Status: down
Speed: Unknown
Duplex: Unknown
Link Failure Count: 4
Permanent HW addr: 02:00:00:00:00:04
Slave queue ID: 0
"""
MDSTAT = """Personalities : [raid1] [raid0] [linear] [raid6] [raid5] [raid4] [raid10]
md0 : active raid1 nvme1n1p2[1] nvme0n1p2[0](F) nvme9n1p2[2](S)
      937692352 blocks super 1.2 [2/1] [_U]
      [=>...................]  recovery =  7.5% (70326912/937692352) finish=71.2min speed=203K/sec
      bitmap: 3/7 pages [12KB], 65536KB chunk

md1 : active (auto-read-only) raid0 nvme2n1[0] nvme3n1[1] nvme4n1[2] nvme5n1[3]
      15002423296 blocks super 1.2 512k chunks

md127 : inactive sdb[1](S) sda[0](S)
      10402 blocks super external:imsm

md2 : active raid5 sdc1[0] sdd1[1] sde1[3]
      2097152 blocks super 1.2 level 5, 512k chunk, algorithm 2 [3/3] [UUU]
        resync=PENDING

unused devices: <none>
"""
MDADM_DETAIL = """/dev/md0:
           Version : 1.2
     Creation Time : Mon Jan  5 10:00:00 2026
        Raid Level : raid1
        Array Size : 937692352 (894.25 GiB 960.20 GB)
     Used Dev Size : 937692352 (894.25 GiB 960.20 GB)
      Raid Devices : 2
     Total Devices : 2
       Persistence : Superblock is persistent

     Intent Bitmap : Internal

       Update Time : Tue Jan  6 11:00:00 2026
             State : clean, degraded, recovering
    Active Devices : 1
   Working Devices : 2
    Failed Devices : 0
     Spare Devices : 1

Consistency Policy : bitmap

    Rebuild Status : 12% complete

              Name : node1:0  (local to host node1)
              UUID : 00000000:00000000:00000000:00000001
            Events : 1042

    Number   Major   Minor   RaidDevice State
       2     259        3        0      spare rebuilding   /dev/nvme1n1p2
       1     259        7        1      active sync   /dev/nvme0n1p2
"""
NVME_FLAT = """{
  "Devices" : [
    {
      "NameSpace" : 1,
      "DevicePath" : "/dev/nvme0n1",
      "GenericPath" : "/dev/ng0n1",
      "Firmware" : "GDC5602Q",
      "Index" : 0,
      "ModelNumber" : "SAMSUNG MZ1L21T9HCLS-00A07",
      "SerialNumber" : "S0000000000001  ",
      "UsedBytes" : 20480,
      "MaximumLBA" : 3750748848,
      "PhysicalSize" : 1920383410176,
      "SectorSize" : 512
    }
  ]
}
"""
NVME_NESTED = """{
  "Devices":[
    {
      "HostNQN":"nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000001",
      "HostID":"00000000-0000-4000-8000-000000000001",
      "Subsystems":[
        {
          "Subsystem":"nvme-subsys1",
          "SubsystemNQN":"nqn.1994-11.com.samsung:nvme:PM1743:2.5-inch:S0000000000002",
          "Controllers":[
            {
              "Controller":"nvme1",
              "Cntlid":"1",
              "SerialNumber":"S0000000000002",
              "ModelNumber":"SAMSUNG MZWLO3T8HCLS-00A07",
              "Firmware":"OPPA4B5Q",
              "Transport":"pcie",
              "Address":"0000:c1:00.0",
              "Slot":"",
              "Namespaces":[
                {
                  "NameSpace":"nvme1n1",
                  "Generic":"ng1n1",
                  "NSID":1,
                  "UsedBytes":3840755982336,
                  "MaximumLBA":7501476528,
                  "PhysicalSize":3840755982336,
                  "SectorSize":512
                }
              ],
              "Paths":[
              ]
            }
          ],
          "Namespaces":[
          ]
        },
        {
          "Subsystem":"nvme-subsys2",
          "SubsystemNQN":"nqn.0000-00.example:2",
          "Controllers":[
            {
              "Controller":"nvme2",
              "SerialNumber":"S0000000000003",
              "ModelNumber":"SAMSUNG MZWLO3T8HCLS-00A07",
              "Firmware":"OPPA4B5Q",
              "Transport":"pcie",
              "Address":"0000:c2:00.0",
              "Namespaces":[
              ],
              "Paths":[
              ]
            }
          ],
          "Namespaces":[
          ]
        }
      ]
    }
  ]
}
"""
RDMA_STAT_JSON = (
    '[{"ifindex":0,"ifname":"mlx5_0","port":1,"rx_write_requests":12,"out_of_buffer":0,'
    '"np_cnp_sent":18446744073709551615},\n {"ifindex":1,"ifname":"mlx5_bond_0","port":1,'
    '"rx_write_requests":0,"out_of_buffer":3}]\n'
)
RDMA_STAT_TEXT = (
    "link mlx5_0/1 rx_write_requests 12 rx_read_requests 0 out_of_buffer 0 roce_adp_retrans 1 \n"
    "link mlx5_1/1 rx_write_requests 0 rx_read_requests 0 out_of_buffer 7 roce_adp_retrans 0 \n"
)
RPM = "nvidia-fabricmanager-580.65.06-1.x86_64\npackage nvidia-imex is not installed\n"
NVML = (
    '{"driver_version": "570.148.08", "nvml_version": "12.570.148.08", "count": 1, "gpus":'
    ' [{"index": 0, "reachable": true, "uuid": "GPU-1", "nvlinks_active": [true, false]}],'
    ' "errors": [{"gpu": 0, "field": "ecc", "error": "Not Supported"}]}'
)
_RULE = "-" * 79
LLDP_TEXT = f"""{_RULE}
LLDP neighbors:
{_RULE}
Interface:    ens1f0np0, via: LLDP, RID: 3, Time: 12 days, 03:04:05
  Chassis:
    ChassisID:    mac 02:00:00:00:00:01
    SysName:      leaf-1
    SysDescr:     Debian GNU/Linux 11 (bullseye)
                  Linux 5.10 SONiC
    MgmtIP:       10.0.0.1
    MgmtIface:    5
    MgmtIP:       fe80::1
    Capability:   Bridge, on
    Capability:   Router, off
  Port:
    PortID:       local Ethernet4
    PortDescr:    etp2
    TTL:          120
{_RULE}
"""
NODE_YAML = """apiVersion: v1
kind: Node
metadata:
  annotations:
    k3s.io/node-args: '["server"]'
  labels:
    kubernetes.io/hostname: n1
    nvidia.com/gpu.count: "8"
  name: n1
status:
  allocatable:
    cpu: "112"
    nvidia.com/gpu: "7"
  capacity:
    cpu: "112"
    nvidia.com/gpu: "8"
  conditions:
  - lastHeartbeatTime: "2026-01-01T00:00:00Z"
    reason: KubeletReady
    status: "True"
    type: Ready
"""
LSPCI_BRIDGE = """17:01.0 PCI bridge: Broadcom / LSI PEX890xx PCIe Gen 5 Switch (rev b0)\
 (prog-if 00 [Normal decode])
	Bus: primary=17, secondary=18, subordinate=18, sec-latency=0
	Capabilities: [68] Express (v2) Downstream Port (Slot+), MSI 00
		DevCap:	MaxPayload 512 bytes, PhantFunc 0
		DevCtl:	CorrErr- NonFatalErr- FatalErr+ UnsupReq-
			MaxPayload 256 bytes, MaxReadReq 128 bytes
		LnkCap:	Port #1, Speed 32GT/s, Width x16, ASPM L1, Exit Latency L1 <32us
		LnkSta:	Speed 32GT/s, Width x16
			TrErr- Train- SlotClk- DLActive+ BWMgmt+ ABWMgmt-
		LnkSta2: Current De-emphasis Level: -6dB, EqualizationComplete+
	Capabilities: [158 v1] Access Control Services
		ACSCap:	SrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans+
		ACSCtl:	SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-
	Kernel driver in use: pcieport
"""

#: Two files as a Debian host has them, and one in the form of apt_preferences(5).
APT_PREFERENCES = """/etc/apt/preferences.d/nodejs:Package: nodejs
/etc/apt/preferences.d/nodejs:Pin: origin deb.nodesource.com
/etc/apt/preferences.d/nodejs:Pin-Priority: 600
/etc/apt/preferences.d/nvidia.pref:Explanation: one version
/etc/apt/preferences.d/nvidia.pref:Package: *nvidia* libcuda1
/etc/apt/preferences.d/nvidia.pref: cuda-drivers*
/etc/apt/preferences.d/nvidia.pref:Pin: version 580.173.02*
/etc/apt/preferences.d/nvidia.pref:Pin-Priority: 1001
/etc/apt/preferences.d/nvidia.pref:
/etc/apt/preferences.d/nvidia.pref:# the rest
/etc/apt/preferences.d/nvidia.pref:Package: *
/etc/apt/preferences.d/nvidia.pref:Pin: release o=Ubuntu
/etc/apt/preferences.d/nvidia.pref:Pin-Priority: 500
"""

RPM_LOCKS = """Last metadata expiration check: 0:10:11 ago on Mon 30 Nov 2026 10:00:00 AM UTC.
nvidia-driver-3:580.173.02-1.el9.*
nvidia-fabric-manager-0:580.173.02-1.*
"""

DNF_DOWN = """==> dnf makecache <==
Error: Failed to download metadata for repo 'baseos': Cannot download repomd.xml
==> exit 1 <==
"""

#: As the collector writes it: files of sysfs by their path.
SYS_MODULES = """{
 "/sys/module/nvidia/initstate": {"mode": "0444", "size": 4096, "text": "live\\n"},
 "/sys/module/nvidia_uvm/initstate": {"mode": "0444", "size": 4096, "text": "coming\\n"}
}
"""
