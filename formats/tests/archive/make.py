"""Makes the archive next to this file, with the otf2 package of PyPI (3.2), whose library is Score-P's own.

Three ranks on two nodes: a ring of nonblocking messages, two collective operations whose bytes are counted as Score-P does, and a message
on a communicator of ranks 2 and 0. Run it in an empty folder: python make.py
"""

import otf2
from otf2.enums import CollectiveOp, GroupFlag, GroupType, Paradigm, RegionRole

RANKS = 3
NO_ROOT = 0xFFFFFFFF
FUNCTIONS = ["Init", "Send", "Irecv", "Wait", "Isend", "Allreduce", "Bcast", "Finalize", "Recv"]


class Rank:
    """A rank with its clock."""

    def __init__(self, writer, rank, regions):
        self.writer, self.time, self.regions = writer, 1000 + rank * 7, regions

    def call(self, name, inside=None):
        self.time += 100
        self.writer.enter(self.time, self.regions[name])
        if inside:
            self.time += 5
            inside(self.writer, self.time)
        self.time += 30
        self.writer.leave(self.time, self.regions[name])


def collective(operation, comm, root, sent, received):
    def inside(writer, time):
        writer.mpi_collective_begin(time)
        writer.mpi_collective_end(time, operation, comm, root, sent, received)

    return inside


def main():
    with otf2.writer.open(".", timer_resolution=1000000, archive_name="ring") as trace:
        define = trace.definitions
        machine = define.system_tree_node("machine")
        nodes = [define.system_tree_node(f"host{it}", parent=machine, class_name="node") for it in range(2)]
        processes = [define.location_group(f"MPI Rank {it}", system_tree_parent=nodes[it % 2]) for it in range(RANKS)]
        writers = [trace.event_writer("Master thread", group=process) for process in processes]
        locations = [writer._location for writer in writers]

        def group(kind, members):
            return define.group("", group_type=kind, paradigm=Paradigm.MPI, group_flags=GroupFlag.NONE, members=members)

        group(GroupType.COMM_LOCATIONS, locations)
        world = define.comm("MPI_COMM_WORLD", group(GroupType.COMM_GROUP, locations), None)
        pair = define.comm("pair", group(GroupType.COMM_GROUP, [locations[2], locations[0]]), None)
        regions = {
            name: define.region(f"MPI_{name}", f"MPI_{name}", "", RegionRole.FUNCTION, Paradigm.MPI) for name in FUNCTIONS
        }
        work = define.region("work", "work", "a.c")
        for number, writer in enumerate(writers):
            rank = Rank(writer, number, regions)
            after, before = (number + 1) % RANKS, (number - 1) % RANKS
            writer.enter(rank.time, work)
            rank.call("Init")
            rank.call("Irecv", lambda it, time: it.mpi_irecv_request(time, 5))
            rank.call("Isend", lambda it, time: it.mpi_isend(time, after, world, 9, 4096, 6))
            rank.call("Wait", lambda it, time: it.mpi_isend_complete(time, 6))
            rank.call("Wait", lambda it, time: it.mpi_irecv(time, before, world, 9, 4096, 5))
            rank.call("Allreduce", collective(CollectiveOp.ALLREDUCE, world, NO_ROOT, 8 * RANKS, 8 * RANKS))
            rank.call("Bcast", collective(CollectiveOp.BCAST, world, 1, 64 * RANKS if number == 1 else 0, 64))
            if number == 2:
                rank.call("Send", lambda it, time: it.mpi_send(time, 1, pair, 77, 123))
            if number == 0:
                rank.call("Recv", lambda it, time: it.mpi_recv(time, 0, pair, 77, 123))
            rank.call("Finalize")
            writer.leave(rank.time + 10, work)


main()
