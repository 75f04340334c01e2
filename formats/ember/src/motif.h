// @NAME@: a motif for SST's Ember, made by `belljar model export ember` of a model of traced runs.
//
// What it does stands in tables in the .cc file; how much it moves and how long it computes in the two parameter files. docs/model.md tells what stands where.

#ifndef _H_EMBER_@GUARD@_MOTIF
#define _H_EMBER_@GUARD@_MOTIF

#include <cstdint>
#include <deque>
#include <map>
#include <queue>
#include <string>
#include <tuple>
#include <vector>

#include "mpi/embermpigen.h"

namespace SST {
namespace Ember {

class Ember@NAME@Generator : public EmberMessagePassingGenerator {

public:
    SST_ELI_REGISTER_SUBCOMPONENT(
        Ember@NAME@Generator,
        "ember",
        "@NAME@Motif",
        SST_ELI_ELEMENT_VERSION(1, 0, 0),
        "a program as a model of Belljar's has it",
        SST::Ember::EmberGenerator
    )

    SST_ELI_DOCUMENT_PARAMS(
        { "arg.size",       "Size of the problem, as the model counts it",         "@SIZE@" },
        { "arg.threads",    "Threads of a rank; the parameter files have those of 1", "1" },
        { "arg.msg_model",  "File of bytes by call site",                          "msg.model" },
        { "arg.exec_model", "File of nanoseconds from one call site to the next",  "exec.model" },
    )

    Ember@NAME@Generator(SST::ComponentId_t id, Params& params);
    ~Ember@NAME@Generator();
    bool generate(std::queue<EmberEvent*>& evQ);

private:
    // A function of ranks and size, as a line of a parameter file has it.
    struct Function {
        std::string form;
        std::vector<double> numbers;
        double at(double nodes, double size) const;
    };
    typedef std::map<std::tuple<int, int, int>, Function> Functions;

    // Where a rank is in a communicator.
    struct Group {
        Communicator handle;
        uint32_t rank;
        int size;
        bool member;
    };

    // A loop that turns.
    struct Loop {
        int begin;
        int end;
        int64_t turn;
        int64_t turns;
    };

    // Which instance of a call is made.
    struct Instance {
        int64_t index;
        int64_t count;
        int64_t turn;
    };

    // Where a walk through the program is.
    struct Walk {
        int at;
        std::vector<Loop> loops;
        std::vector<int64_t> visits;
    };

    void read(const std::string& file, int keys, Functions& into);
    void begin();
    int next(Walk& walk, int64_t& turn);
    double value(const Functions& of, int values, int from, const Instance& at) const;
    int64_t bytes(int values, const Instance& at) const;
    int64_t relation(int number, const Group& group, int64_t turn) const;
    void call(std::queue<EmberEvent*>& evQ, int number, const Instance& at);
    void transfers(std::queue<EmberEvent*>& evQ, int number, const Instance& at);
    void collective(std::queue<EmberEvent*>& evQ, int number, const Instance& at);
    void complete(std::queue<EmberEvent*>& evQ, int number, const Instance& at);
    void make(std::queue<EmberEvent*>& evQ, int number, const Instance& at);
    int64_t peerOf(int number, int index, const Instance& at);
    uint32_t tagOf(int number, int index, const Instance& at) const;
    int* counts(int64_t bytes, int members, bool displacements);

    Functions m_bytes;
    Functions m_times;
    double m_size;
    int m_threads;
    bool m_begun;
    int m_class;
    int m_before;
    Walk m_walk;
    std::vector<int64_t> m_loopCounts;
    std::vector<int64_t> m_callCounts;
    std::vector<int64_t> m_made;
    std::map<int, Group> m_groups;
    std::vector<MessageRequest*> m_open;
    std::vector<MessageRequest*> m_begunNow;
    std::vector<int> m_asked;
    std::deque<MessageRequest> m_requests;
    std::deque<std::vector<int> > m_counts;
};

}
}

#endif
