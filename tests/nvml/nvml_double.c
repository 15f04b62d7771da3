/* Stands in for libnvidia-ml.so.1 in tests: what its cards say comes from a scenario (scenario.h, files in scenarios/).
 * Signatures, layouts and codes are those of NVIDIA's Python binding (nvidia-ml-py 13.615) and of the NVML API
 * reference; it was never held against a real driver.
 */
#define _GNU_SOURCE
#include "scenario.h"

/* ---- the library and its cards ---- */

int nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    if (!loaded) {
        start = clock_seconds(CLOCK_MONOTONIC);
        if (load()) return UNKNOWN;
        loaded = 1;
    }
    if (!init_code) initialised++;
    return init_code;
}

int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return initialised ? initialised--, OK : UNINITIALIZED; }

const char *nvmlErrorString(int code)
{
    static char text[32];
    snprintf(text, sizeof text, "error %d of the double", code);
    return text;
}

int nvmlSystemGetDriverVersion(char *out, unsigned size)
{
    if (!initialised) return UNINITIALIZED;
    return driver_code ? driver_code : *driver ? text_into(driver, out, size) : NOT_SUPPORTED;
}

int nvmlSystemGetCudaDriverVersion_v2(int *out)
{
    if (!initialised) return UNINITIALIZED;
    *out = cuda_version;
    return cuda_version ? OK : NOT_SUPPORTED;
}

int nvmlSystemGetCudaDriverVersion(int *out) { return nvmlSystemGetCudaDriverVersion_v2(out); }

int nvmlDeviceGetCount_v2(unsigned *out)
{
    *out = (unsigned)card_count;
    return initialised ? OK : UNINITIALIZED;
}

static int hand_out(struct card *card, struct card **out)
{
    double ignored;
    int code = reached(card);
    if (!code && card->field[F_handle].phases) code = value_now(card, F_handle, &ignored);
    if (!code) *out = card;
    return code;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct card **out)
{
    if (!initialised) return UNINITIALIZED;
    return index < (unsigned)card_count ? hand_out(cards[index], out) : INVALID;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, struct card **out)
{
    if (!initialised) return UNINITIALIZED;
    for (int i = 0; i < used; i++)
        if (!strcmp(pool[i].uuid, uuid)) return hand_out(&pool[i], out);
    return NOT_FOUND;
}

static int pci_numbers(const char *text, unsigned number[3])
{
    return sscanf(text, "%x:%x:%x", &number[0], &number[1], &number[2]) == 3;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *id, struct card **out)
{
    unsigned asked[3], own[3];
    if (!initialised) return UNINITIALIZED;
    if (!pci_numbers(id, asked)) return INVALID;
    for (int i = 0; i < card_count; i++)
        if (pci_numbers(cards[i]->pci, own) && !memcmp(own, asked, sizeof own)) return hand_out(cards[i], out);
    return NOT_FOUND;
}

#define TEXT(function, member) \
    int function(struct card *card, char *out, unsigned size) \
    { \
        int code = reached(card); \
        return code ? code : text_into(card->member, out, size); \
    }
TEXT(nvmlDeviceGetName, name)
TEXT(nvmlDeviceGetUUID, uuid)

struct pci_info { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };

int nvmlDeviceGetPciInfo_v3(struct card *card, struct pci_info *out)
{
    unsigned number[3];
    int code = reached(card);
    if (code) return code;
    if (card->parent) card = card->parent;
    if (!pci_numbers(card->pci, number)) return UNKNOWN;
    memset(out, 0, sizeof *out);
    out->domain = number[0], out->bus = number[1], out->device = number[2];
    snprintf(out->legacy, sizeof out->legacy, "%04X:%02X:%02X.0", number[0] & 65535, number[1] & 255, number[2] & 255);
    memcpy(out->bus_id, card->pci, sizeof out->bus_id);
    return OK;
}

int nvmlDeviceGetIndex(struct card *card, unsigned *out)
{
    int code = reached(card);
    if (!code) *out = (unsigned)card->index;
    return code;
}

/* ---- gauges and counters ---- */

#define UINT(function, field) int function(struct card *card, unsigned *out) { return get_uint(card, F_##field, out); }
#define ULL(function, field) \
    int function(struct card *card, unsigned long long *out) { return get_ull(card, F_##field, out); }
UINT(nvmlDeviceGetPowerUsage, power)
UINT(nvmlDeviceGetEnforcedPowerLimit, power_limit)
UINT(nvmlDeviceGetCurrPcieLinkGeneration, pcie_generation)
UINT(nvmlDeviceGetCurrPcieLinkWidth, pcie_width)
UINT(nvmlDeviceGetMaxPcieLinkGeneration, max_pcie_generation)
UINT(nvmlDeviceGetMaxPcieLinkWidth, max_pcie_width)
UINT(nvmlDeviceGetPcieReplayCounter, pcie_replay)
UINT(nvmlDeviceGetPersistenceMode, persistence)
ULL(nvmlDeviceGetTotalEnergyConsumption, energy)
ULL(nvmlDeviceGetCurrentClocksEventReasons, event_reasons)
ULL(nvmlDeviceGetCurrentClocksThrottleReasons, throttle_reasons)
ULL(nvmlDeviceGetSupportedEventTypes, events)

int nvmlDeviceGetUtilizationRates(struct card *card, unsigned out[2])
{
    int code = get_uint(card, F_utilization_gpu, &out[0]);
    return code ? code : get_uint(card, F_utilization_memory, &out[1]);
}

int nvmlDeviceGetClockInfo(struct card *card, unsigned type, unsigned *out)
{
    return type < 4 ? get_uint(card, F_clock_graphics + (int)type, out) : INVALID;
}

int nvmlDeviceGetMaxClockInfo(struct card *card, unsigned type, unsigned *out)
{
    return type < 4 ? get_uint(card, F_max_clock_graphics + (int)type, out) : INVALID;
}

int nvmlDeviceGetTemperature(struct card *card, unsigned sensor, unsigned *out)
{
    return sensor == 0 ? get_uint(card, F_temperature, out) : INVALID;
}

struct temperature { unsigned version, sensor; int degrees; };

int nvmlDeviceGetTemperatureV(struct card *card, struct temperature *out)
{
    if (out->version != (sizeof *out | 1u << 24)) return WRONG_VERSION;
    return out->sensor == 0 ? get_uint(card, F_temperature, (unsigned *)&out->degrees) : INVALID;
}

int nvmlDeviceGetTotalEccErrors(struct card *card, unsigned error, unsigned counter, unsigned long long *out)
{
    return error < 2 && counter < 2 ? get_ull(card, F_ecc_sbe_volatile + (int)(error + 2 * counter), out) : INVALID;
}

/* KB/s over the last 20 ms, which it is said to sleep through. */
int nvmlDeviceGetPcieThroughput(struct card *card, unsigned counter, unsigned *out)
{
    usleep(20000);
    return counter < 2 ? get_uint(card, counter ? F_pcie_rx : F_pcie_tx, out) : INVALID;
}

int nvmlDeviceGetViolationStatus(struct card *card, unsigned policy, unsigned long long out[2])
{
    out[0] = (unsigned long long)(1e6 * clock_seconds(CLOCK_REALTIME));
    return policy < 6 ? get_ull(card, F_violation_power + (int)policy, &out[1]) : INVALID;
}

struct memory { unsigned long long total, free, used; };
struct memory_v2 { unsigned version; unsigned long long total, reserved, free, used; };

static int memory_of(struct card *card, struct memory_v2 *out)
{
    int code = get_ull(card, F_memory_used, &out->used);
    out->reserved = 0;
    if (!code && card->field[F_memory_reserved].phases) code = get_ull(card, F_memory_reserved, &out->reserved);
    if (code) return code;
    out->total = card->memory;
    out->free = out->total - out->used - out->reserved;
    return OK;
}

/* The first version counts reserved memory as used. */
int nvmlDeviceGetMemoryInfo(struct card *card, struct memory *out)
{
    struct memory_v2 full;
    int code = memory_of(card, &full);
    if (!code) *out = (struct memory){ full.total, full.free, full.used + full.reserved };
    return code;
}

int nvmlDeviceGetMemoryInfo_v2(struct card *card, struct memory_v2 *out)
{
    double ignored;
    int code = card->field[F_memory_v2].phases ? get(card, F_memory_v2, &ignored) : OK;
    if (code) return code;
    return out->version == (sizeof *out | 2u << 24) ? memory_of(card, out) : WRONG_VERSION;
}

/* ---- field values ---- */

union value { double d; unsigned ui; unsigned long ul; unsigned long long ull; };
struct field_value { uint32_t id, scope; int64_t timestamp, latency; unsigned type; int code; union value value; };

static const struct { unsigned id, last; int field; unsigned type; } field_ids[] = {
    { 3, 6, F_ecc_sbe_volatile, 3 }, { 74, 79, F_violation_power, 3 }, { 82, 82, F_memory_temperature, 1 },
    { 83, 83, F_energy, 3 }, { 94, 94, F_pcie_replay, 1 }, { 138, 141, F_nvlink_data_tx, 3 },
    { 185, 190, F_power_average, 1 },
};

/* NVLink counters are of one link, whose number is the scope, or of all for UINT_MAX. Power has scope 0, the GPU. */
static int field_value(struct card *card, struct field_value *out, double *value)
{
    double links = 0;
    int which = -1, code;
    for (size_t i = 0; i < sizeof field_ids / sizeof *field_ids; i++)
        if (out->id >= field_ids[i].id && out->id <= field_ids[i].last) {
            which = field_ids[i].field + (int)(out->id - field_ids[i].id);
            out->type = field_ids[i].type;
        }
    if (which < 0 || (out->id >= 185 && out->scope)) return NOT_SUPPORTED;
    code = value_now(card, which, value);
    if (code || which < F_nvlink_data_tx || which > F_nvlink_raw_rx || out->scope == UINT32_MAX) return code;
    code = value_now(card, F_nvlink_links, &links);
    if (!code && (double)out->scope >= links) return INVALID;
    *value /= links;
    return code;
}

int nvmlDeviceGetFieldValues(struct card *card, int count, struct field_value *values)
{
    double value, ignored;
    int code = reached(card);
    if (!code && (count < 1 || !values)) code = INVALID;
    if (!code && card->field[F_field_values].phases) code = value_now(card, F_field_values, &ignored);
    for (struct field_value *out = values; !code && out < values + count; out++) {
        out->timestamp = (int64_t)(1e6 * clock_seconds(CLOCK_REALTIME));
        out->latency = 0;
        out->value.ull = 0;
        out->code = field_value(card, out, &value);
        if (!out->code) out->value.ull = (unsigned long long)value; /* little-endian: its low half is the ui as well */
    }
    return code;
}

/* ---- processes ---- */

struct process_info { unsigned pid; unsigned long long memory; unsigned gpu_instance, compute_instance; };

static unsigned pid_of(const char *text)
{
    FILE *file;
    unsigned pid = 0;
    if (!strcmp(text, "self")) return (unsigned)getpid();
    if (*text == '$') text = getenv(text + 1);
    if (!text) return 0;
    if (*text != '/') return (unsigned)strtoul(text, NULL, 10);
    file = fopen(text, "r");
    if (!file) return 0;
    if (fscanf(file, "%u", &pid) != 1) pid = 0;
    fclose(file);
    return pid;
}

/* Adds those of one card behind `found`; as many as there are, however many fit. */
static unsigned add_processes(struct card *card, int graphics, unsigned found, unsigned room, struct process_info *out)
{
    for (int i = 0; i < card->processes; i++) {
        unsigned pid = card->process[i].graphics == graphics ? pid_of(card->process[i].pid) : 0;
        if (!pid) continue;
        if (out && found < room)
            out[found] = (struct process_info){ pid, card->process[i].memory, (unsigned)card->gpu_instance,
                                                (unsigned)card->compute_instance };
        found++;
    }
    return found;
}

/* Asked of a card that is cut up, those of its MIG devices are told as well. */
static int list_processes(struct card *card, int graphics, unsigned *count, struct process_info *out)
{
    double ignored;
    unsigned room = *count, found;
    int code = get(card, F_processes, &ignored);
    if (code) return code;
    found = add_processes(card, graphics, 0, room, out);
    for (int i = 0; i < card->instances; i++) found = add_processes(card->instance[i], graphics, found, room, out);
    *count = found;
    return found > room || (found && !out) ? TOO_SMALL : OK;
}

int nvmlDeviceGetComputeRunningProcesses_v3(struct card *card, unsigned *count, struct process_info *out)
{
    return list_processes(card, 0, count, out);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(struct card *card, unsigned *count, struct process_info *out)
{
    return list_processes(card, 1, count, out);
}

/* ---- MIG ---- */

int nvmlDeviceGetMigMode(struct card *card, unsigned *current, unsigned *pending)
{
    int code = get_uint(card, F_mig_mode, current);
    *pending = *current;
    return code;
}

int nvmlDeviceGetMaxMigDeviceCount(struct card *card, unsigned *out)
{
    unsigned mode = 0;
    int code = get_uint(card, F_mig_mode, &mode);
    *out = mode ? INSTANCES : 0;
    return code == NOT_SUPPORTED ? OK : code;
}

int nvmlDeviceGetMigDeviceHandleByIndex(struct card *card, unsigned index, struct card **out)
{
    unsigned most = 0;
    int code = nvmlDeviceGetMaxMigDeviceCount(card, &most);
    if (code) return code;
    if (index >= most) return most ? INVALID : NOT_SUPPORTED;
    return index < (unsigned)card->instances ? hand_out(card->instance[index], out) : NOT_FOUND;
}

int nvmlDeviceIsMigDeviceHandle(struct card *card, unsigned *out)
{
    int code = reached(card);
    if (!code) *out = card->parent != NULL;
    return code;
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(struct card *card, struct card **out)
{
    int code = reached(card);
    if (!code && !card->parent) code = INVALID;
    if (!code) *out = card->parent;
    return code;
}

int nvmlDeviceGetGpuInstanceId(struct card *card, unsigned *out)
{
    int code = reached(card);
    if (!code && !card->parent) code = NOT_SUPPORTED;
    if (!code) *out = (unsigned)card->gpu_instance;
    return code;
}

/* ---- GPM: a metric is what the card says now, given two samples of it, the second taken later ---- */

struct gpm_support { unsigned version, supported; };
struct gpm_sample { struct card *card; double at; };
struct gpm_metric { unsigned id; int code; double value; const char *short_name, *long_name, *unit; };
struct gpm_metrics { unsigned version, count; struct gpm_sample *first, *second; struct gpm_metric metric[]; };

int nvmlGpmQueryDeviceSupport(struct card *card, struct gpm_support *out)
{
    return out->version == 1 ? get_uint(card, F_gpm, &out->supported) : WRONG_VERSION;
}

int nvmlGpmSampleAlloc(struct gpm_sample **out)
{
    *out = calloc(1, sizeof **out);
    return *out ? OK : UNKNOWN;
}

int nvmlGpmSampleFree(struct gpm_sample *sample)
{
    free(sample);
    return OK;
}

int nvmlGpmSampleGet(struct card *card, struct gpm_sample *sample)
{
    unsigned supported = 0;
    int code = get_uint(card, F_gpm, &supported);
    if (!code && !supported) code = NOT_SUPPORTED;
    if (!code) *sample = (struct gpm_sample){ card, elapsed() };
    return code;
}

int nvmlGpmMetricsGet(struct gpm_metrics *asked)
{
    struct gpm_sample *first = asked->first, *second = asked->second;
    if (asked->version != 1) return WRONG_VERSION;
    if (!first || !second || !first->card || first->card != second->card || second->at <= first->at) return INVALID;
    for (unsigned i = 0; i < asked->count; i++) {
        struct gpm_metric *metric = &asked->metric[i];
        int known = metric->id > 0 && metric->id < METRICS;
        metric->value = 0;
        metric->code = known ? value_now(first->card, FIELD_COUNT + (int)metric->id, &metric->value) : NOT_SUPPORTED;
        metric->short_name = metric->long_name = "metric of the double";
        metric->unit = metric->id >= 20 && metric->id <= 21 ? "MiB/s" : "%";
    }
    return OK;
}

/* ---- events ---- */

struct event_set { double since[CARDS * (INSTANCES + 1)]; uint64_t types[CARDS * (INSTANCES + 1)], told; };
struct event_data { struct card *card; unsigned long long type, data; unsigned gpu_instance, compute_instance; };

int nvmlEventSetCreate(struct event_set **out)
{
    if (!initialised) return UNINITIALIZED;
    *out = calloc(1, sizeof **out);
    return *out ? OK : UNKNOWN;
}

int nvmlEventSetFree(struct event_set *set)
{
    free(set);
    return OK;
}

int nvmlDeviceRegisterEvents(struct card *card, unsigned long long types, struct event_set *set)
{
    unsigned long long can = 0;
    int code = get_ull(card, F_events, &can);
    if (!code && (!types || types & ~can)) code = NOT_SUPPORTED;
    if (code) return code;
    set->types[card - pool] |= types;
    set->since[card - pool] = elapsed();
    return OK;
}

int nvmlEventSetWait_v2(struct event_set *set, struct event_data *out, unsigned timeout)
{
    double ignored, until = elapsed() + timeout / 1000.0;
    if (!initialised) return UNINITIALIZED;
    for (;; usleep(1000)) {
        for (int i = 0; i < event_count; i++) {
            struct event *event = &events[i];
            long card = event->card - pool;
            if (set->told >> i & 1 || !(set->types[card] & event->type) || event->seconds < set->since[card] ||
                event->seconds > elapsed())
                continue;
            set->told |= 1ull << i;
            *out = (struct event_data){ event->card, event->type, event->data, UINT32_MAX, UINT32_MAX };
            return OK;
        }
        for (int i = 0; i < used; i++)
            if (set->types[i] && pool[i].field[F_all].phases && value_now(&pool[i], F_all, &ignored))
                return value_now(&pool[i], F_all, &ignored);
        if (elapsed() >= until) return TIMEOUT;
    }
}
