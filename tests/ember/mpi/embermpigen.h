/* As much of Ember's interface as exported motifs use, for tests: events are noted, and communicators are made, but no time passes. */
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <queue>
#include <sstream>
#include <string>
#include <vector>

#define SST_ELI_REGISTER_SUBCOMPONENT(...)
#define SST_ELI_DOCUMENT_PARAMS(...)
#define SST_ELI_ELEMENT_VERSION(...)

namespace SST {
typedef uint64_t ComponentId_t;

struct Params {
    std::map<std::string, std::string> values;
    template <typename T> T find(const std::string& name, T otherwise) const
    {
        auto found = values.find(name);
        if (found == values.end())
            return otherwise;
        std::istringstream words(found->second);
        T value;
        words >> value;
        return value;
    }
    template <typename T> T find(const std::string& name, const char* otherwise) const { return find<T>(name, T(otherwise)); }
};

namespace Hermes {
struct MemAddr { };
namespace MP {
typedef uint32_t Communicator;
typedef uint32_t RankID;
struct MessageRequestBase;
typedef MessageRequestBase* MessageRequest;
struct MessageResponse { };
enum PayloadDataType { CHAR };
enum ReductionOperation { SUM };
static const Communicator GroupWorld = 0;
}
}
}

namespace MP = SST::Hermes::MP;
using namespace SST::Hermes::MP;
namespace Hermes = SST::Hermes;
typedef void* Addr;

namespace SST {
namespace Ember {

/* Something that a rank does; whether it is done, else it is tried again. */
struct EmberEvent { std::function<bool()> run; };

/* What all ranks do, seen from outside. */
struct World {
    struct Group { std::vector<int> members; };
    struct Split { int color, key, rank; Communicator* made; };
    std::vector<Group> groups;
    std::map<std::string, std::pair<uint64_t, uint64_t> > counts;
    std::map<std::vector<int64_t>, int64_t> messages;
    std::map<Communicator, std::vector<Split> > splits;
    std::map<std::pair<Communicator, int>, int> splitsDone;
    uint64_t computed = 0, pending = 0;
    void count(const std::string& what, uint64_t bytes) { counts[what].first++; counts[what].second += bytes; }
};
extern World world;

struct Mpi {
    typedef std::queue<EmberEvent*> Queue;
    int own;
    void push(Queue& q, std::function<bool()> run) { q.push(new EmberEvent { run }); }
    void note(Queue& q, std::string what, uint64_t bytes) { push(q, [=] { world.count(what, bytes); return true; }); }
    void message(Queue& q, std::string what, bool sends, uint32_t count, RankID peer, uint32_t tag, Communicator group)
    {
        int me = own;
        push(q, [=] {
            int other = world.groups[group].members.at(peer);
            std::vector<int64_t> key = { sends ? me : other, sends ? other : me, group, tag, count };
            world.messages[key] += sends ? 1 : -1;
            world.count(what, count);
            return true;
        });
    }
    void init(Queue& q) { note(q, "init", 0); }
    void fini(Queue& q) { note(q, "fini", 0); }
    int place(Communicator comm)
    {
        auto& members = world.groups[comm].members;
        for (size_t at = 0; at < members.size(); at++)
            if (members[at] == own)
                return (int)at;
        return -1;
    }
    void rank(Queue& q, Communicator comm, uint32_t* to) { push(q, [=] { *to = place(comm); return true; }); }
    void size(Queue& q, Communicator comm, int* to) { push(q, [=] { *to = (int)world.groups[comm].members.size(); return true; }); }
    void send(Queue& q, Addr, uint32_t count, PayloadDataType, RankID to, uint32_t tag, Communicator group) { message(q, "send", true, count, to, tag, group); }
    void recv(Queue& q, Addr, uint32_t count, PayloadDataType, RankID from, uint32_t tag, Communicator group, MessageResponse*) { message(q, "recv", false, count, from, tag, group); }
    void isend(Queue& q, Addr, uint32_t count, PayloadDataType, RankID to, uint32_t tag, Communicator group, MessageRequest* request)
    {
        world.pending++;
        *request = (MessageRequest)this;
        message(q, "isend", true, count, to, tag, group);
    }
    void irecv(Queue& q, Addr, uint32_t count, PayloadDataType, RankID from, uint32_t tag, Communicator group, MessageRequest* request)
    {
        world.pending++;
        *request = (MessageRequest)this;
        message(q, "irecv", false, count, from, tag, group);
    }
    void wait(Queue& q, MessageRequest* request)
    {
        push(q, [=] { world.pending -= *request != nullptr; *request = nullptr; world.count("wait", 0); return true; });
    }
    void barrier(Queue& q, Communicator) { note(q, "barrier", 0); }
    void bcast(Queue& q, Addr, uint32_t count, PayloadDataType, int, Communicator) { note(q, "bcast", count); }
    void reduce(Queue& q, Addr, Addr, uint32_t count, PayloadDataType, ReductionOperation, int, Communicator) { note(q, "reduce", count); }
    void allreduce(Queue& q, Addr, Addr, uint32_t count, PayloadDataType, ReductionOperation, Communicator) { note(q, "allreduce", count); }
    void alltoall(Queue& q, Addr, int count, PayloadDataType, Addr, int, PayloadDataType, Communicator group) { note(q, "alltoall", (uint64_t)count * world.groups[group].members.size()); }
    void alltoallv(Queue& q, Addr, Addr counts, Addr, PayloadDataType, Addr, Addr, Addr, PayloadDataType, Communicator group)
    {
        uint64_t sum = 0;
        for (size_t at = 0; at < world.groups[group].members.size(); at++)
            sum += ((int*)counts)[at];
        note(q, "alltoallv", sum);
    }
    void allgather(Queue& q, Hermes::MemAddr, int count, PayloadDataType, Hermes::MemAddr, int, PayloadDataType, Communicator) { note(q, "allgather", count); }
    void allgatherv(Queue& q, Hermes::MemAddr, int count, PayloadDataType, Hermes::MemAddr, Addr, Addr, PayloadDataType, Communicator) { note(q, "allgatherv", count); }
    void scatter(Queue& q, Hermes::MemAddr, uint32_t count, PayloadDataType, Hermes::MemAddr, uint32_t, PayloadDataType, int, Communicator) { note(q, "scatter", count); }
    void commSplit(Queue& q, Communicator old, int color, int key, Communicator* made);
};

#define enQ_init mpi().init
#define enQ_fini mpi().fini
#define enQ_rank mpi().rank
#define enQ_size mpi().size
#define enQ_send mpi().send
#define enQ_recv mpi().recv
#define enQ_isend mpi().isend
#define enQ_irecv mpi().irecv
#define enQ_wait mpi().wait
#define enQ_barrier mpi().barrier
#define enQ_bcast mpi().bcast
#define enQ_reduce mpi().reduce
#define enQ_allreduce mpi().allreduce
#define enQ_alltoall mpi().alltoall
#define enQ_alltoallv mpi().alltoallv
#define enQ_commSplit mpi().commSplit

class EmberMessagePassingGenerator {
public:
    EmberMessagePassingGenerator(ComponentId_t id, Params&, std::string) { m_mpi.own = (int)id; }
    virtual ~EmberMessagePassingGenerator() { }
    virtual bool generate(std::queue<EmberEvent*>& evQ) = 0;

protected:
    Mpi& mpi() { return m_mpi; }
    int rank() const { return m_mpi.own; }
    int size() const { return (int)world.groups[0].members.size(); }
    void enQ_compute(std::queue<EmberEvent*>& q, uint64_t ns) { m_mpi.push(q, [=] { world.computed += ns; return true; }); }

private:
    Mpi m_mpi;
};

}
}
