/* Has every rank of a motif do all that it does, one event after another, and tells what that was: RANKS SIZE, with the parameter files in this folder. */
#include <algorithm>
#include <cstdlib>
#include <memory>

#include MOTIF_HEADER

using namespace SST;
using namespace SST::Ember;

World SST::Ember::world;

/* Waits until all members of the old one have come; each color is a new communicator, ordered by key and rank. */
void Mpi::commSplit(Queue& q, Communicator old, int color, int key, Communicator* made)
{
    int me = own;
    push(q, [=] {
        auto& all = world.splits[old];
        auto mine = [&](const World::Split& it) { return it.rank == me; };
        if (world.splitsDone[{ old, me }]) {
            world.splitsDone[{ old, me }]--;
            return true;
        }
        if (std::find_if(all.begin(), all.end(), mine) == all.end())
            all.push_back({ color, key, me, made });
        if (all.size() < world.groups[old].members.size())
            return false;
        std::sort(all.begin(), all.end(), [](const World::Split& one, const World::Split& other) {
            return std::make_tuple(one.color, one.key, one.rank) < std::make_tuple(other.color, other.key, other.rank);
        });
        for (size_t at = 0; at < all.size(); at++) {
            if (at == 0 || all[at].color != all[at - 1].color)
                world.groups.push_back({});
            world.groups.back().members.push_back(all[at].rank);
            *all[at].made = (Communicator)(world.groups.size() - 1);
            world.splitsDone[{ old, all[at].rank }]++;
        }
        all.clear();
        world.count("split", 0);
        world.splitsDone[{ old, me }]--;
        return true;
    });
}

int main(int, char** argv)
{
    int ranks = atoi(argv[1]);
    world.groups.push_back({});
    for (int rank = 0; rank < ranks; rank++)
        world.groups[0].members.push_back(rank);
    Params params;
    params.values["arg.size"] = argv[2];
    std::vector<std::unique_ptr<MOTIF> > all;
    std::vector<std::queue<EmberEvent*> > queues(ranks);
    std::vector<bool> done(ranks, false);
    for (int rank = 0; rank < ranks; rank++)
        all.emplace_back(new MOTIF(rank, params));
    for (bool moves = true; moves;) {
        moves = false;
        for (int rank = 0; rank < ranks; rank++) {
            auto& queue = queues[rank];
            if (queue.empty() && !done[rank]) {
                done[rank] = all[rank]->generate(queue);
                moves = true;
            }
            while (!queue.empty() && queue.front()->run()) {
                delete queue.front();
                queue.pop();
                moves = true;
            }
        }
    }
    uint64_t unmatched = 0;
    for (auto& message : world.messages)
        unmatched += message.second != 0;
    bool ended = std::all_of(done.begin(), done.end(), [](bool it) { return it; });
    printf("{ \"ended\": %s, \"unmatched\": %lu, \"pending\": %lu, \"computed_ns\": %lu", ended ? "true" : "false", unmatched, world.pending, world.computed);
    for (auto& one : world.counts)
        printf(", \"%s\": [%lu, %lu]", one.first.c_str(), one.second.first, one.second.second);
    printf(" }\n");
}
