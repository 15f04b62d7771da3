/* What the cards of the NVML double say, from a text file named in the environment variable TFSCALE_NVML_SCENARIO that
 * the first nvmlInit reads, and that is then asked by time and by number of calls.
 *
 * A scenario, line by line; `#` opens a comment line:
 *   driver 550.54.15            version of the driver; `driver !CODE` where it cannot be told
 *   cuda 12040                  version of CUDA the driver offers
 *   init !18                    what nvmlInit answers, `ok` unless said otherwise
 *   device 0 uuid=GPU-... pci=00000000:1B:00.0 memory=BYTES name=TO THE END OF THE LINE
 *   mig 0 uuid=MIG-... gi=1 ci=0 memory=BYTES name=...     the next MIG device below card 0, called 0.0, 0.1, ...
 *   CARDS FIELD VALUE [at WHEN VALUE]...                   what a field says, and from when it says something else
 *   CARDS process compute|graphics pid=PID memory=BYTES|none     a process, told where `CARDS processes ok` is said too
 *   CARDS event xid|sbe|dbe DATA at SECONDSs               an event for those who registered for it before
 * CARDS is `*` (every card so far), `3`, `0-3` or `0.1`. A later line for the same field takes the earlier one's place.
 * VALUE is a number; NUMBER+RATE, which grows by RATE a second from when it holds; `ok` (0); or !CODE, an NVML error.
 * WHEN is `0.5s` after nvmlInit, or `40calls` on that card. PID is a number, `self`, or $NAME: the number that this
 * variable holds when asked, or that the file holds which it names by an absolute path; without either no process.
 * FIELD is one of the names below or gpm.METRIC, in NVML's units (mW, mJ, ns, KiB, MHz, Celsius, bytes, KB/s, percent);
 * a field that is not given answers "not supported", but memory_reserved is 0. Some are no readings: `all` answers for
 * the whole card where it is an error (a lost GPU), `handle` for asking its handle, `memory_v2` and `field_values` for
 * these calls as a whole; `gpm` (0 or 1) is GPM support, `events` the mask of event types that the card can report.
 * A line that is not understood is told on stderr, and nvmlInit answers 999.
 */
#ifndef NVML_DOUBLE_SCENARIO_H
#define NVML_DOUBLE_SCENARIO_H
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, TIMEOUT = 10,
       WRONG_VERSION = 25, UNKNOWN = 999 };
enum { CARDS = 16, INSTANCES = 7, PHASES = 4, PROCESSES = 8, EVENTS = 32, METRICS = 128 };

#define FIELDS(X) \
    X(all) X(handle) X(processes) X(gpm) X(events) X(utilization_gpu) X(utilization_memory) X(memory_used) \
    X(memory_reserved) X(power) X(power_limit) X(energy) X(clock_graphics) X(clock_sm) X(clock_memory) X(clock_video) \
    X(max_clock_graphics) X(max_clock_sm) X(max_clock_memory) X(max_clock_video) X(temperature) X(memory_temperature) \
    X(event_reasons) X(throttle_reasons) X(pcie_generation) X(pcie_width) X(max_pcie_generation) X(max_pcie_width) \
    X(pcie_replay) X(pcie_tx) X(pcie_rx) X(ecc_sbe_volatile) X(ecc_dbe_volatile) X(ecc_sbe_aggregate) \
    X(ecc_dbe_aggregate) X(mig_mode) X(persistence) X(violation_power) X(violation_thermal) X(violation_sync_boost) \
    X(violation_board_limit) X(violation_low_utilization) X(violation_reliability) X(nvlink_links) X(nvlink_data_tx) \
    X(nvlink_data_rx) X(nvlink_raw_tx) X(nvlink_raw_rx) X(power_average) X(power_instant) X(power_limit_min) \
    X(power_limit_max) X(power_limit_default) X(power_limit_current) X(memory_v2) X(field_values)
#define AS_ENUM(name) F_##name,
#define AS_TEXT(name) #name,
enum { FIELDS(AS_ENUM) FIELD_COUNT };
static const char *field_names[] = { FIELDS(AS_TEXT) };

struct phase { double seconds; long calls; int code; double value, rate, since; };
struct field { int phases; struct phase phase[PHASES]; };
struct process { int graphics; char pid[256]; uint64_t memory; };
struct card {
    char name[96], uuid[96], pci[32];
    uint64_t memory;
    int index, instances, gpu_instance, compute_instance, processes;
    long calls;
    struct card *parent, *instance[INSTANCES];
    struct process process[PROCESSES];
    struct field field[FIELD_COUNT + METRICS];
};
struct event { struct card *card; uint64_t type, data; double seconds; };

static struct card pool[CARDS * (INSTANCES + 1)], *cards[CARDS];
static struct event events[EVENTS];
static int used, card_count, event_count, initialised, loaded, init_code, driver_code, cuda_version;
static char driver[80];
static double start;

static double clock_seconds(clockid_t which)
{
    struct timespec now;
    clock_gettime(which, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double elapsed(void) { return clock_seconds(CLOCK_MONOTONIC) - start; }

/* ---- reading a scenario: each function answers 0, or -1 where the text is not understood ---- */

static int read_value(const char *text, struct phase *phase)
{
    char *end;
    if (*text == '!') {
        phase->code = (int)strtol(text + 1, &end, 10);
        return *end || end == text + 1 || phase->code <= 0 ? -1 : 0;
    }
    if (!strcmp(text, "ok")) return 0;
    phase->value = strtod(text, &end);
    if (end == text) return -1;
    if (*end == '+') phase->rate = strtod(end + 1, &end);
    return *end ? -1 : 0;
}

static int read_when(const char *text, struct phase *phase)
{
    char *end;
    double number = strtod(text, &end);
    if (end == text) return -1;
    if (!strcmp(end, "calls")) phase->calls = (long)number;
    else if (!strcmp(end, "s")) phase->seconds = phase->since = number;
    else return -1;
    return 0;
}

static int read_field(struct card *card, const char *name, const char *value, char *rest)
{
    struct field new = { 1, { { .since = 0 } } };
    char *word, *save = NULL;
    int which = 0, metric = 0;
    if (!strncmp(name, "gpm.", 4)) {
        metric = atoi(name + 4);
        if (metric < 1 || metric >= METRICS) return -1;
        which = FIELD_COUNT + metric;
    } else {
        while (which < FIELD_COUNT && strcmp(name, field_names[which])) which++;
        if (which == FIELD_COUNT) return -1;
    }
    if (!value || read_value(value, new.phase)) return -1;
    for (word = strtok_r(rest, " \t", &save); word; word = strtok_r(NULL, " \t", &save)) {
        struct phase *phase = &new.phase[new.phases];
        char *when = strtok_r(NULL, " \t", &save), *then = strtok_r(NULL, " \t", &save);
        if (new.phases++ == PHASES || strcmp(word, "at") || !when || !then) return -1;
        phase->since = -1;
        if (read_when(when, phase) || read_value(then, phase)) return -1;
    }
    card->field[which] = new;
    return 0;
}

/* The text after `key` where that begins a word: up to the next blank, or all of it for the name, which comes last. */
static const char *option(char *text, const char *key, char *out, size_t size)
{
    char *at = text ? strstr(text, key) : NULL;
    while (at && at > text && at[-1] != ' ' && at[-1] != '\t') at = strstr(at + 1, key);
    if (!at) return NULL;
    at += strlen(key);
    snprintf(out, size, "%.*s", (int)(strcmp(key, "name=") ? strcspn(at, " \t") : strlen(at)), at);
    return out;
}

static int read_card(struct card *parent, char *rest)
{
    struct card *card = &pool[used];
    char number[32];
    if (parent ? parent->instances == INSTANCES : card_count == CARDS) return -1;
    if (!option(rest, "uuid=", card->uuid, sizeof card->uuid) || !option(rest, "memory=", number, sizeof number) ||
        !option(rest, "name=", card->name, sizeof card->name))
        return -1;
    card->memory = strtoull(number, NULL, 10);
    card->parent = parent;
    card->gpu_instance = option(rest, "gi=", number, sizeof number) ? atoi(number) : -1;
    card->compute_instance = option(rest, "ci=", number, sizeof number) ? atoi(number) : -1;
    if (!parent && !option(rest, "pci=", card->pci, sizeof card->pci)) return -1;
    card->index = parent ? parent->instances : card_count;
    *(parent ? &parent->instance[parent->instances++] : &cards[card_count++]) = card;
    used++;
    return 0;
}

static int read_process(struct card *card, const char *kind, char *rest)
{
    struct process *process = &card->process[card->processes];
    char memory[32];
    if (!kind || card->processes == PROCESSES || !option(rest, "pid=", process->pid, sizeof process->pid) ||
        !option(rest, "memory=", memory, sizeof memory) || (strcmp(kind, "compute") && strcmp(kind, "graphics")))
        return -1;
    process->graphics = !strcmp(kind, "graphics");
    process->memory = strcmp(memory, "none") ? strtoull(memory, NULL, 10) : UINT64_MAX;
    card->processes++;
    return 0;
}

static int read_event(struct card *card, const char *kind, char *rest)
{
    struct event *event = &events[event_count];
    unsigned long long data;
    char unit;
    if (!kind || event_count == EVENTS) return -1;
    if (sscanf(rest, "%llu at %lf%c", &data, &event->seconds, &unit) != 3 || unit != 's') return -1;
    event->type = !strcmp(kind, "sbe") ? 1 : !strcmp(kind, "dbe") ? 2 : !strcmp(kind, "xid") ? 8 : 0;
    event->card = card;
    event->data = data;
    event_count++;
    return event->type ? 0 : -1;
}

static int read_card_line(struct card *card, char *name, char *value, char *rest)
{
    char copy[1024];
    snprintf(copy, sizeof copy, "%s", rest); /* every card of the line takes it apart anew */
    if (!strcmp(name, "process")) return read_process(card, value, copy);
    if (!strcmp(name, "event")) return read_event(card, value, copy);
    return read_field(card, name, value, copy);
}

static int read_line(char *line)
{
    char *save = NULL, *first = strtok_r(line, " \t", &save), *name, *value, *rest;
    struct phase phase = { 0 };
    int low, high, instance, length = 0;
    if (!first || *first == '#') return 0;
    name = strtok_r(NULL, " \t", &save);
    if (!name) return -1;
    if (!strcmp(first, "device")) return atoi(name) == card_count ? read_card(NULL, save) : -1;
    if (!strcmp(first, "mig")) return atoi(name) < card_count ? read_card(cards[atoi(name)], save) : -1;
    if (!strcmp(first, "init") || (!strcmp(first, "driver") && *name == '!')) {
        if (read_value(name, &phase)) return -1;
        *(*first == 'i' ? &init_code : &driver_code) = phase.code;
        return 0;
    }
    if (!strcmp(first, "driver")) return snprintf(driver, sizeof driver, "%s", name) > 0 ? 0 : -1;
    if (!strcmp(first, "cuda")) return (cuda_version = atoi(name)) > 0 ? 0 : -1;
    value = strtok_r(NULL, " \t", &save);
    rest = save ? save : (char *)"";
    if (sscanf(first, "%d.%d%n", &low, &instance, &length) == 2 && !first[length])
        return low < card_count && instance < cards[low]->instances
                   ? read_card_line(cards[low]->instance[instance], name, value, rest) : -1;
    if (!strcmp(first, "*")) low = 0, high = card_count - 1;
    else if (sscanf(first, "%d-%d%n", &low, &high, &length) == 2 && !first[length]) ;
    else if (sscanf(first, "%d%n", &low, &length) == 1 && !first[length]) high = low;
    else return -1;
    if (low < 0 || high >= card_count || low > high) return -1;
    for (; low <= high; low++)
        if (read_card_line(cards[low], name, value, rest)) return -1;
    return 0;
}

static int load(void)
{
    const char *path = getenv("TFSCALE_NVML_SCENARIO");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[1024], shown[1024];
    int number = 0, code = OK;
    if (!file) {
        fprintf(stderr, "NVML double: TFSCALE_NVML_SCENARIO names no readable file: %s\n", path ? path : "(not set)");
        return UNKNOWN;
    }
    while (code == OK && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\r\n")] = 0;
        memcpy(shown, line, sizeof shown);
        number++;
        if (read_line(line)) {
            fprintf(stderr, "NVML double: %s:%d is not understood: %s\n", path, number, shown);
            code = UNKNOWN;
        }
    }
    fclose(file);
    return code;
}

/* ---- what a card says now ---- */

static int value_now(struct card *card, int which, double *out)
{
    struct field *field = &card->field[which];
    struct phase *phase = NULL;
    double now = elapsed();
    for (int i = 0; i < field->phases; i++)
        if (now >= field->phase[i].seconds && card->calls >= field->phase[i].calls) phase = &field->phase[i];
    if (!phase) return NOT_SUPPORTED;
    if (phase->since < 0) phase->since = now;
    *out = phase->value + phase->rate * (now - phase->since);
    return phase->code;
}

/* Counts the call, and answers for a card that answers nothing any more. */
static int reached(struct card *card)
{
    double ignored;
    int code;
    if (!initialised) return UNINITIALIZED;
    if (card < pool || card >= pool + used) return INVALID;
    card->calls++;
    if (card->parent && (code = reached(card->parent))) return code;
    code = value_now(card, F_all, &ignored);
    return code == NOT_SUPPORTED && !card->field[F_all].phases ? OK : code;
}

static int get(struct card *card, int which, double *out)
{
    int code = reached(card);
    return code ? code : value_now(card, which, out);
}

static int get_uint(struct card *card, int which, unsigned *out)
{
    double value = 0;
    int code = out ? get(card, which, &value) : INVALID;
    if (!code) *out = (unsigned)(uint64_t)value;
    return code;
}

static int get_ull(struct card *card, int which, unsigned long long *out)
{
    double value = 0;
    int code = out ? get(card, which, &value) : INVALID;
    if (!code) *out = (unsigned long long)value;
    return code;
}

static int text_into(const char *text, char *out, unsigned size)
{
    if (strlen(text) >= size) return TOO_SMALL;
    memcpy(out, text, strlen(text) + 1);
    return OK;
}

#endif
