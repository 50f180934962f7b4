/* Reads what flat.py prints. Bounded: a line or a GPU too many is left out, a number that is none is
 * 0, and a program that cannot be run or prints no status leaves status at 999 (unknown). */
#ifndef LAB_FLAT_H
#define LAB_FLAT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_GPUS 64
#define MAX_LINES 8192

struct gpu {
    char name[64], uuid[64], bus[24], device[12], links[40], p2p[MAX_GPUS + 1];
    int numa, ecc, ecc_pending, ecc_errors, remap_corr, remap_unc, remap_pending, remap_failed;
    int gen, gen_max, width, temperature, power_limit;
};

struct node {
    int status, hang, fabric, switches, clique, count;
    char driver[32];
    struct gpu gpus[MAX_GPUS];
};

static void flat_copy(char *to, size_t size, const char *from)
{
    size_t length = strcmp(from, "-") ? strlen(from) : 0;
    if (length >= size)
        length = size - 1;
    memcpy(to, from, length);
    to[length] = 0;
}

static void flat_gpu(struct gpu *gpu, const char *key, const char *value)
{
    const struct { const char *key; int *to; } numbers[] = {
        {"numa", &gpu->numa}, {"ecc", &gpu->ecc}, {"ecc_pending", &gpu->ecc_pending},
        {"ecc_errors", &gpu->ecc_errors}, {"remap_corr", &gpu->remap_corr},
        {"remap_unc", &gpu->remap_unc}, {"remap_pending", &gpu->remap_pending},
        {"remap_failed", &gpu->remap_failed}, {"gen", &gpu->gen}, {"gen_max", &gpu->gen_max},
        {"width", &gpu->width}, {"temperature", &gpu->temperature},
        {"power_limit", &gpu->power_limit},
    };
    const struct { const char *key; char *to; size_t size; } texts[] = {
        {"name", gpu->name, sizeof gpu->name}, {"uuid", gpu->uuid, sizeof gpu->uuid},
        {"bus", gpu->bus, sizeof gpu->bus}, {"device", gpu->device, sizeof gpu->device},
        {"links", gpu->links, sizeof gpu->links}, {"p2p", gpu->p2p, sizeof gpu->p2p},
    };
    for (size_t at = 0; at < sizeof numbers / sizeof *numbers; at++)
        if (!strcmp(key, numbers[at].key))
            *numbers[at].to = (int)strtol(value, NULL, 10);
    for (size_t at = 0; at < sizeof texts / sizeof *texts; at++)
        if (!strcmp(key, texts[at].key))
            flat_copy(texts[at].to, texts[at].size, value);
}

static void flat_line(struct node *node, char *line)
{
    char key[32] = "", value[128] = "";
    int number = -1;
    if (sscanf(line, "gpu %d %31s %127[^\n]", &number, key, value) == 3) {
        if (number < 0 || number >= MAX_GPUS)
            return;
        if (number >= node->count)
            node->count = number + 1;
        flat_gpu(&node->gpus[number], key, value);
        return;
    }
    if (sscanf(line, "%31s %127[^\n]", key, value) != 2)
        return;
    if (!strcmp(key, "status")) {
        node->hang = !strcmp(value, "hang");
        node->status = (int)strtol(value, NULL, 10);
    } else if (!strcmp(key, "driver"))
        flat_copy(node->driver, sizeof node->driver, value);
    else if (!strcmp(key, "fabric"))
        node->fabric = (int)strtol(value, NULL, 10);
    else if (!strcmp(key, "switches"))
        node->switches = (int)strtol(value, NULL, 10);
    else if (!strcmp(key, "clique"))
        node->clique = (int)strtol(value, NULL, 10);
}

static void read_node(struct node *node)
{
    char line[256];
    int lines = 0;
    FILE *said = popen(FLAT " " VERSION, "r");
    memset(node, 0, sizeof *node);
    node->status = 999;
    if (!said)
        return;
    while (fgets(line, sizeof line, said))
        if (lines++ < MAX_LINES)
            flat_line(node, line);
    if (pclose(said) != 0)
        node->status = 999;
}

#endif
