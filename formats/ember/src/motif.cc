// @NAME@: a motif for SST's Ember, made by `belljar model export ember` of a model of traced runs.
//
// Of each class of ranks there is a list of steps: calls, and loops around them. Each time that Ember asks for events it gets those of the next call.

#include <sst_config.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "ember@NAME@.h"

using namespace SST::Ember;

namespace {

// Kinds of steps.
enum { CALL, LOOP, END };
// Calls by what they do.
enum { NOTHING, INIT, FINALIZE, TRANSFER, COLLECTIVE, SPLIT };
// Collective operations.
enum { BARRIER, BCAST, REDUCE, ALLREDUCE, ALLTOALL, ALLTOALLV, ALLGATHER, ALLGATHERV, SCATTER, GATHER };
// How values of a call's instances follow from functions.
enum { SAME, ENDS, BYTURN, PERIODIC, PROFILE };
// Ranks as functions of a rank.
enum { NOBODY, FIXED, FROMEND, SHIFT, NEIGHBOR, DOUBLING, STEPPING, FLIP, FLIPTURN, FLIPHALVES, FLIPSTEP, HALF,
       TRANSPOSE, COORDINATE, OTHERS, QUOTIENT, REMAINDER, PARENT, CHILD, TURN, FLOOR, ALONG, PARTSTART, PART };
// Tags.
enum { NOTAG, SAMETAG, TURNTAG, INSTANCETAG, LISTTAG };
// Which open requests a call completes.
enum { EVERY, THESE, INTURN };
// What tells ranks apart.
enum { ALL, FIRST, BOTHENDS, PARITY, PARITYANDENDS, BORDERS, BORDERSANDFIRST, SECONDHALF, MULTIPLE, LEVEL, RANK };

struct Step { int kind, number, end; };
struct Values { int kind, site, count, profile, parts; };
struct Relation { int kind, grid, ascending, a, b, c; };
struct Transfer { int sends, communicator, relation, relations, byInstance, tag, tags, tagCount, values; };
struct Call { int kind, transfer, transfers, started, operation, communicator, root, byInstance, sent, received, sentShared,
              completes, completion, completions, makes, color, key, time, times; };
struct Time { int after, values; };
struct Class { int steps, loops, loop, calls, call; };
struct Role { uint64_t kind; int number; };

@TABLES@

// Ranks by the dimensions of a grid, none longer than the one before and as equal as possible, as MPI_Dims_create has them.
bool divide(int64_t left, int count, int64_t most, std::vector<int64_t>& lengths)
{
    if (count <= 1) {
        if (left > most)
            return false;
        lengths.push_back(left);
        return true;
    }
    int64_t least = 1;
    while (std::pow((double)least, count) < (double)left)
        least++;
    for (int64_t first = least; first <= left && first <= most; first++) {
        if (left % first)
            continue;
        std::vector<int64_t> rest;
        if (divide(left / first, count - 1, first, rest)) {
            lengths.push_back(first);
            lengths.insert(lengths.end(), rest.begin(), rest.end());
            return true;
        }
    }
    return false;
}

void coordinates(int64_t rank, int64_t ranks, int grid, bool ascending, std::vector<int64_t>& lengths, std::vector<int64_t>& at)
{
    divide(ranks, grid, ranks, lengths);
    if (ascending)
        lengths.assign(lengths.rbegin(), lengths.rend());
    at.resize(lengths.size());
    for (int index = (int)lengths.size() - 1; index >= 0; index--) {
        at[index] = rank % lengths[index];
        rank /= lengths[index];
    }
}

int64_t shifted(int64_t rank, int64_t ranks, int64_t by, bool wraps)
{
    int64_t to = rank + by;
    if (wraps)
        to = ((to % ranks) + ranks) % ranks;
    return to < 0 || to >= ranks ? -1 : to;
}

uint64_t kindOf(int64_t rank, int64_t ranks)
{
    uint64_t first = rank == 0, last = rank + 1 == ranks, ends = first | last << 1, odd = rank % 2, kind = 0;
    std::vector<int64_t> lengths, at;
    switch (role) {
    case FIRST: return first;
    case BOTHENDS: return ends;
    case PARITY: return odd;
    case PARITYANDENDS: return odd << 2 | ends;
    case BORDERS:
    case BORDERSANDFIRST:
        coordinates(rank, ranks, roleGrid, roleAscending, lengths, at);
        for (int index = (int)lengths.size() - 1; index >= 0; index--)
            kind = kind << 2 | (uint64_t)(at[index] == 0) | (uint64_t)(at[index] + 1 == lengths[index]) << 1;
        return role == BORDERS ? kind : kind << 1 | first;
    case SECONDHALF: return rank * 2 >= ranks;
    case MULTIPLE: return rank % roleGrid == 0;
    case LEVEL:
        if (rank == 0)
            return UINT64_MAX;
        for (; rank % 2 == 0; rank /= 2)
            kind++;
        return kind;
    case RANK: return rank;
    default: return 0;
    }
}

}

double Ember@NAME@Generator::Function::at(double nodes, double size) const
{
    double sum = 0;
    size_t next = 0;
    if (form == "CONSTANT")
        return numbers[0];
    if (form == "EXPONENTIAL")
        return std::exp(numbers[0] * nodes * size + numbers[1] * nodes + numbers[2] * size + numbers[3]);
    if (form == "TERMS") {
        for (; next + 5 <= numbers.size(); next += 5)
            sum += numbers[next] * std::pow(nodes, numbers[next + 1]) * std::pow(std::log2(nodes), numbers[next + 2])
                * std::pow(size, numbers[next + 3]) * std::pow(std::log2(size), numbers[next + 4]);
        return sum;
    }
    // POLYNOMIAL: its order, centre and half span of the nodes and of the size, then coefficients.
    double n = numbers[2] > 0 ? (nodes - numbers[1]) / numbers[2] : 0, s = numbers[4] > 0 ? (size - numbers[3]) / numbers[4] : 0;
    next = 5;
    for (int order = 0; order <= (int)numbers[0]; order++)
        for (int of = 0; of <= order; of++)
            if ((numbers[2] > 0 || of == 0) && (numbers[4] > 0 || order == of))
                sum += numbers[next++] * std::pow(n, of) * std::pow(s, order - of);
    return sum;
}

Ember@NAME@Generator::Ember@NAME@Generator(SST::ComponentId_t id, Params& params) :
    EmberMessagePassingGenerator(id, params, "@NAME@"), m_begun(false), m_class(0), m_before(0)
{
    m_size = params.find<double>("arg.size", @SIZE@);
    m_threads = params.find<int>("arg.threads", 1);
    read(params.find<std::string>("arg.msg_model", "msg.model"), 1, m_bytes);
    read(params.find<std::string>("arg.exec_model", "exec.model"), 2, m_times);
}

Ember@NAME@Generator::~Ember@NAME@Generator()
{
}

// Lines are: one or two call sites, threads of a rank, the function's form, its numbers.
void Ember@NAME@Generator::read(const std::string& file, int keys, Functions& into)
{
    std::ifstream stream(file);
    if (!stream.good()) {
        fprintf(stderr, "@NAME@Motif: cannot read %s\n", file.c_str());
        exit(1);
    }
    std::string line;
    while (std::getline(stream, line)) {
        if (line.empty() || line[0] == '#')
            continue;
        std::istringstream words(line);
        int from = 0, to = 0, threads = 0;
        double number;
        Function function;
        words >> from;
        if (keys == 2)
            words >> to;
        words >> threads >> function.form;
        while (words >> number)
            function.numbers.push_back(number);
        into[std::make_tuple(from, to, threads)] = function;
    }
}

// How often loops are come to, and how often each call is made, is known after a walk through all.
void Ember@NAME@Generator::begin()
{
    uint64_t kind = kindOf(rank(), size());
    m_class = -1;
    for (int index = 0; index < roleCount; index++)
        if (roles[index].kind == kind)
            m_class = roles[index].number;
    if (m_class < 0) {
        fprintf(stderr, "@NAME@Motif: the runs of the model have no rank like %d of %d\n", rank(), size());
        exit(1);
    }
    const Class& own = classes[m_class];
    m_loopCounts.assign(own.loops, 1);
    for (int pass = 0; pass < 8; pass++) {
        Walk walk;
        walk.at = own.steps;
        walk.visits.assign(own.loops, 0);
        m_callCounts.assign(own.calls, 0);
        int64_t turn;
        for (int number = next(walk, turn); number >= 0; number = next(walk, turn))
            m_callCounts[number]++;
        for (size_t index = 0; index < walk.visits.size(); index++)
            walk.visits[index] = walk.visits[index] > 0 ? walk.visits[index] : 1;
        if (walk.visits == m_loopCounts)
            break;
        m_loopCounts = walk.visits;
    }
    m_walk.at = own.steps;
    m_walk.visits.assign(own.loops, 0);
    m_made.assign(own.calls, 0);
    Group world = { GroupWorld, (uint32_t)rank(), size(), true };
    m_groups[worldNumber] = world;
    m_begun = true;
}

// The next call, and in which turn of the loop around it it is; -1 after the last.
int Ember@NAME@Generator::next(Walk& walk, int64_t& turn)
{
    const Class& own = classes[m_class];
    for (;;) {
        const Step& step = steps[walk.at];
        if (step.kind == CALL) {
            turn = walk.loops.empty() ? 0 : walk.loops.back().turn;
            walk.at++;
            return step.number;
        }
        if (step.kind == LOOP) {
            int64_t visit = walk.visits[step.number]++;
            Instance at = { visit, m_loopCounts[step.number], visit };
            Loop loop = { walk.at + 1, step.end, 0, (int64_t)std::llround(value(m_bytes, loopValues[own.loop + step.number], 0, at)) };
            walk.at = loop.turns > 0 ? loop.begin : loop.end + 1;
            if (loop.turns > 0)
                walk.loops.push_back(loop);
            continue;
        }
        if (walk.loops.empty())
            return -1;
        Loop& loop = walk.loops.back();
        if (++loop.turn < loop.turns) {
            walk.at = loop.begin;
        } else {
            walk.at = loop.end + 1;
            walk.loops.pop_back();
        }
    }
}

double Ember@NAME@Generator::value(const Functions& of, int number, int from, const Instance& at) const
{
    const Values& own = values[number];
    auto part = [&](int64_t index) {
        // Parts after the first have their sites a million further each.
        int site = own.site + (int)index * 1000000;
        auto key = &of == &m_times ? std::make_tuple(from, site, m_threads) : std::make_tuple(site, 0, m_threads);
        auto found = of.find(key);
        return found == of.end() ? 0.0 : found->second.at(size(), m_size);
    };
    switch (own.kind) {
    case ENDS:
        return part(at.index + 1 >= at.count ? 2 : at.index == 0 ? 0 : 1);
    case BYTURN: {
        if (at.turn < own.count)
            return part(at.turn);
        double last = part(own.count - 1), before = own.count > 1 ? part(own.count - 2) : last;
        int64_t more = at.turn + 1 - own.count;
        return before != 0 && last != 0 ? last * std::pow(last / before, (double)(more < 64 ? more : 64)) : last;
    }
    case PERIODIC:
        return part(at.index % own.count);
    case PROFILE: {
        int64_t index = at.index * own.parts / (at.count > 0 ? at.count : 1);
        return part(0) * profiles[own.profile + (index < own.parts ? index : own.parts - 1)];
    }
    default:
        return part(0);
    }
}

int64_t Ember@NAME@Generator::bytes(int values, const Instance& at) const
{
    double all = value(m_bytes, values, 0, at);
    return all > 0 ? std::llround(all) : 0;
}

int64_t Ember@NAME@Generator::relation(int number, const Group& group, int64_t turn) const
{
    const Relation& own = relations[number];
    int64_t rank = group.rank, ranks = group.size, sum = 0;
    std::vector<int64_t> lengths, at;
    auto within = [&](int64_t to) { return to >= 0 && to < ranks ? to : -1; };
    auto back = [](bool is, int64_t by) { return is ? -by : by; };
    switch (own.kind) {
    case FIXED: return own.a;
    case FROMEND: return ranks - own.a - 1;
    case SHIFT: return shifted(rank, ranks, own.a, own.b);
    case NEIGHBOR:
        coordinates(rank, ranks, own.grid, own.ascending, lengths, at);
        at[own.a] = shifted(at[own.a], lengths[own.a], own.b, own.c);
        if (at[own.a] < 0)
            return -1;
        for (size_t index = 0; index < at.size(); index++)
            sum = sum * lengths[index] + at[index];
        return sum;
    case DOUBLING: return shifted(rank, ranks, back(own.a, (int64_t)1 << (turn < 40 ? turn : 40)), own.b);
    case STEPPING: return shifted(rank, ranks, back(own.a, turn + own.b), own.c);
    case FLIP: return within(rank ^ own.a);
    case FLIPTURN: return turn < 31 ? within(rank ^ (int64_t)1 << turn) : -1;
    case FLIPHALVES: return turn < 31 ? within(rank ^ ranks >> (turn + 1)) : -1;
    case FLIPSTEP: return within(rank ^ (turn + own.a));
    case HALF: return shifted(rank, ranks, ranks / 2, true);
    case TRANSPOSE:
        while ((sum + 1) * (sum + 1) <= ranks)
            sum++;
        if (sum * sum == ranks)
            return rank % sum * sum + rank / sum;
        // Two squares side by side, by pairs of ranks.
        for (sum = 0; 2 * (sum + 1) * (sum + 1) <= ranks;)
            sum++;
        return 2 * sum * sum == ranks ? 2 * (rank / 2 % sum * sum + rank / 2 / sum) + rank % 2 : -1;
    case COORDINATE:
        coordinates(rank, ranks, own.grid, own.ascending, lengths, at);
        return at[own.a];
    case OTHERS:
        coordinates(rank, ranks, own.grid, own.ascending, lengths, at);
        for (int index = 0; index < (int)at.size(); index++)
            if (index != own.a)
                sum = sum * lengths[index] + at[index];
        return sum;
    case QUOTIENT: return rank / own.a;
    case REMAINDER: return rank % own.a;
    case PARENT: return rank > 0 ? (rank - 1) / own.a : -1;
    case CHILD: return within(rank * own.a + own.b);
    case TURN: return (turn + own.a) % ranks;
    case FLOOR: return rank / own.a * own.a;
    case ALONG:
        coordinates(rank, ranks, own.grid, own.ascending, lengths, at);
        at[own.a] = 0;
        for (size_t index = 0; index < at.size(); index++)
            sum = sum * lengths[index] + at[index];
        return sum;
    case PARTSTART: return (rank * own.a / ranks * ranks + own.a - 1) / own.a;
    case PART: return rank * own.a / ranks;
    default: return -1;
    }
}

bool Ember@NAME@Generator::generate(std::queue<EmberEvent*>& evQ)
{
    if (!m_begun)
        begin();
    // A rank's place in a communicator is told after that was made, and must be known for what follows.
    for (size_t index = 0; index < m_asked.size(); index++) {
        Group& group = m_groups[m_asked[index]];
        if (group.member) {
            enQ_rank(evQ, group.handle, &group.rank);
            enQ_size(evQ, group.handle, &group.size);
        }
    }
    m_asked.clear();
    if (!evQ.empty())
        return false;
    // A call that sends nothing and takes no time has no events: then it is the next one's turn.
    while (evQ.empty()) {
        int64_t turn = 0;
        int number = next(m_walk, turn);
        if (number < 0)
            return true;
        Instance at = { m_made[number]++, m_callCounts[number], turn };
        const Class& own = classes[m_class];
        const Call& what = calls[own.call + number];
        int time = what.time;
        for (int index = 0; index < what.times; index++)
            if (times[what.time + index].after == m_before)
                time = what.time + index;
        if (what.times > 0) {
            double before = value(m_times, times[time].values, times[time].after, at);
            if (before >= 1)
                enQ_compute(evQ, (uint64_t)before);
        }
        m_before = own.call + number + 1;
        call(evQ, number, at);
    }
    return false;
}

void Ember@NAME@Generator::call(std::queue<EmberEvent*>& evQ, int number, const Instance& at)
{
    const Call& own = calls[classes[m_class].call + number];
    switch (own.kind) {
    case INIT: enQ_init(evQ); break;
    case FINALIZE: enQ_fini(evQ); break;
    case TRANSFER: transfers(evQ, number, at); break;
    case COLLECTIVE: collective(evQ, number, at); break;
    case SPLIT: make(evQ, number, at); break;
    }
    complete(evQ, number, at);
    if (own.kind == COLLECTIVE || own.kind == NOTHING)
        m_open.insert(m_open.end(), own.started, (MessageRequest*)NULL);
    if (own.kind == TRANSFER && own.started > 0) {
        // What the call began is open after it completed what it completes.
        m_open.insert(m_open.end(), m_begunNow.begin(), m_begunNow.end());
        m_begunNow.clear();
    }
}

void Ember@NAME@Generator::transfers(std::queue<EmberEvent*>& evQ, int number, const Instance& at)
{
    const Call& own = calls[classes[m_class].call + number];
    std::vector<MessageRequest*> waits;
    // Receives first: a call that does both does them at once.
    for (int sends = 0; sends < 2; sends++) {
        for (int index = 0; index < own.transfers; index++) {
            const Transfer& of = transfers_[own.transfer + index];
            const Group& group = m_groups[of.communicator];
            if ((of.sends != 0) != (sends != 0) || own.started > 0)
                continue;
            int64_t peer = peerOf(number, index, at);
            if (peer < 0)
                continue;
            uint32_t count = (uint32_t)bytes(of.values, at), tag = tagOf(number, index, at);
            if (!sends && own.transfers > 1) {
                m_requests.push_back(MessageRequest());
                waits.push_back(&m_requests.back());
                enQ_irecv(evQ, (Addr)NULL, count, CHAR, (RankID)peer, tag, group.handle, waits.back());
            } else if (!sends) {
                enQ_recv(evQ, (Addr)NULL, count, CHAR, (RankID)peer, tag, group.handle, (MessageResponse*)NULL);
            } else {
                enQ_send(evQ, (Addr)NULL, count, CHAR, (RankID)peer, tag, group.handle);
            }
        }
    }
    for (size_t index = 0; index < waits.size(); index++)
        enQ_wait(evQ, waits[index]);
    for (int index = 0; index < own.transfers && own.started > 0; index++) {
        const Transfer& of = transfers_[own.transfer + index];
        const Group& group = m_groups[of.communicator];
        int64_t peer = peerOf(number, index, at);
        if (peer < 0) {
            m_begunNow.push_back(NULL);
            continue;
        }
        uint32_t count = (uint32_t)bytes(of.values, at), tag = tagOf(number, index, at);
        m_requests.push_back(MessageRequest());
        m_begunNow.push_back(&m_requests.back());
        if (of.sends)
            enQ_isend(evQ, (Addr)NULL, count, CHAR, (RankID)peer, tag, group.handle, m_begunNow.back());
        else
            enQ_irecv(evQ, (Addr)NULL, count, CHAR, (RankID)peer, tag, group.handle, m_begunNow.back());
    }
}

int64_t Ember@NAME@Generator::peerOf(int number, int index, const Instance& at)
{
    const Transfer& of = transfers_[calls[classes[m_class].call + number].transfer + index];
    int64_t which = at.turn < of.relations ? at.turn : of.relations - 1;
    return relation(of.relation + (int)which, m_groups[of.communicator], of.byInstance ? at.index : at.turn);
}

uint32_t Ember@NAME@Generator::tagOf(int number, int index, const Instance& at) const
{
    const Transfer& of = transfers_[calls[classes[m_class].call + number].transfer + index];
    switch (of.tag) {
    case SAMETAG: return tags[of.tags];
    case TURNTAG: return tags[of.tags] + at.turn;
    case INSTANCETAG: return tags[of.tags] + at.index;
    case LISTTAG: return tags[of.tags + at.index % of.tagCount];
    default: return 0;
    }
}

// Bytes for each member, as equal as may be, or where those of each begin.
int* Ember@NAME@Generator::counts(int64_t bytes, int members, bool displacements)
{
    m_counts.push_back(std::vector<int>());
    std::vector<int>& all = m_counts.back();
    int64_t sum = 0;
    for (int index = 0; index < members; index++) {
        int64_t own = bytes / members + (index < bytes % members);
        all.push_back((int)(displacements ? sum : own));
        sum += own;
    }
    return all.data();
}

void Ember@NAME@Generator::collective(std::queue<EmberEvent*>& evQ, int number, const Instance& at)
{
    const Call& own = calls[classes[m_class].call + number];
    const Group& group = m_groups[own.communicator];
    if (!group.member || group.size < 1)
        return;
    int64_t turn = own.byInstance ? at.index : at.turn;
    int64_t root = own.root < 0 ? 0 : relation(own.root, group, turn);
    int64_t sent = bytes(own.sent, at), received = bytes(own.received, at), most = sent > received ? sent : received;
    int members = group.size, share = (int)(own.sentShared ? sent : sent / members);
    switch (own.operation) {
    case BARRIER: enQ_barrier(evQ, group.handle); break;
    case BCAST: enQ_bcast(evQ, (Addr)NULL, (uint32_t)most, CHAR, (int)root, group.handle); break;
    case REDUCE: enQ_reduce(evQ, (Addr)NULL, (Addr)NULL, (uint32_t)most, CHAR, MP::SUM, (int)root, group.handle); break;
    case ALLREDUCE: enQ_allreduce(evQ, (Addr)NULL, (Addr)NULL, (uint32_t)most, CHAR, MP::SUM, group.handle); break;
    case ALLTOALL: enQ_alltoall(evQ, (Addr)NULL, share, CHAR, (Addr)NULL, share, CHAR, group.handle); break;
    case ALLTOALLV:
        enQ_alltoallv(evQ, (Addr)NULL, counts(sent, members, false), counts(sent, members, true), CHAR,
                      (Addr)NULL, counts(received, members, false), counts(received, members, true), CHAR, group.handle);
        break;
    case ALLGATHER:
        mpi().allgather(evQ, Hermes::MemAddr(), (int)sent, CHAR, Hermes::MemAddr(), (int)sent, CHAR, group.handle);
        break;
    case ALLGATHERV:
        mpi().allgatherv(evQ, Hermes::MemAddr(), (int)sent, CHAR, Hermes::MemAddr(),
                         counts(received, members, false), counts(received, members, true), CHAR, group.handle);
        break;
    case SCATTER:
        mpi().scatter(evQ, Hermes::MemAddr(), (uint32_t)received, CHAR, Hermes::MemAddr(), (uint32_t)received, CHAR, (int)root, group.handle);
        break;
    case GATHER:
        // Ember has none: each sends the root its part.
        for (int member = 0; (int64_t)group.rank == root && member < members; member++)
            if (member != root)
                enQ_recv(evQ, (Addr)NULL, (uint32_t)(own.sentShared ? received : received / members), CHAR, (RankID)member, gatherTag, group.handle, (MessageResponse*)NULL);
        if ((int64_t)group.rank != root)
            enQ_send(evQ, (Addr)NULL, (uint32_t)sent, CHAR, (RankID)root, gatherTag, group.handle);
        break;
    }
}

void Ember@NAME@Generator::complete(std::queue<EmberEvent*>& evQ, int number, const Instance& at)
{
    const Call& own = calls[classes[m_class].call + number];
    std::vector<bool> done(m_open.size(), own.completes == EVERY);
    if (own.completes != EVERY && own.completions > 0) {
        int64_t which = own.completes == INTURN ? at.index % own.completions : 0;
        const int* list = completions + completionStarts[own.completion + which];
        int length = completionStarts[own.completion + which + 1] - completionStarts[own.completion + which];
        for (int index = 0; index < length; index++)
            if (list[index] < (int)done.size())
                done[list[index]] = true;
    }
    std::vector<MessageRequest*> left;
    for (size_t index = 0; index < m_open.size(); index++) {
        if (!done[index])
            left.push_back(m_open[index]);
        else if (m_open[index])
            enQ_wait(evQ, m_open[index]);
    }
    m_open.swap(left);
}

void Ember@NAME@Generator::make(std::queue<EmberEvent*>& evQ, int number, const Instance& at)
{
    const Call& own = calls[classes[m_class].call + number];
    const Group& parent = m_groups[own.communicator];
    Group& made = m_groups[own.makes];
    made = parent;
    if (own.color < 0)
        return;
    int64_t color = relation(own.color, parent, at.turn), key = own.key < 0 ? 0 : relation(own.key, parent, at.turn);
    made.member = color >= 0;
    enQ_commSplit(evQ, parent.handle, (int)color, (int)key, &made.handle);
    m_asked.push_back(own.makes);
}
