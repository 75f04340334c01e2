/* The bytes of each function, by the names that its parameters have in the standard. In a wrapper
 * `me` is the function. */

#define SENT(value) add(&sent[me], value)
#define RECEIVED(value) add(&received[me], value)

/* Messages (chapter 3). */
#define BYTES_Send SENT(moved(dest, count, datatype))
#define BYTES_Bsend BYTES_Send
#define BYTES_Ssend BYTES_Send
#define BYTES_Rsend BYTES_Send
#define BYTES_Isend BYTES_Send
#define BYTES_Ibsend BYTES_Send
#define BYTES_Issend BYTES_Send
#define BYTES_Irsend BYTES_Send
#define BYTES_Recv RECEIVED(came(status, source, count, datatype))
#ifdef OPEN_MPI
#define BYTES_Mrecv RECEIVED(came(status, 0, count, type))
#else
#define BYTES_Mrecv RECEIVED(came(status, 0, count, datatype))
#endif
#define BYTES_Sendrecv \
    SENT(moved(dest, sendcount, sendtype)); \
    RECEIVED(came(status, source, recvcount, recvtype))
#define BYTES_Sendrecv_replace \
    SENT(moved(dest, count, datatype)); \
    RECEIVED(came(status, source, count, datatype))

/* Persistent messages (3.9) and partitioned ones (chapter 4). */
#define BYTES_Send_init remember(*request, moved(dest, count, datatype), 0)
#define BYTES_Bsend_init BYTES_Send_init
#define BYTES_Ssend_init BYTES_Send_init
#define BYTES_Rsend_init BYTES_Send_init
#define BYTES_Recv_init remember(*request, 0, 0)
#define BYTES_Psend_init remember(*request, moved(dest, count * partitions, datatype), 0)
#define BYTES_Precv_init remember(*request, 0, 0)
#define BYTES_Start start(me, *request)
#define BYTES_Startall \
    for (int i = 0; i < count; i++) \
    start(me, array_of_requests[i])

/* Collective operations (chapter 6). MOVE says both sides of one, which happens now or, of a
 * persistent one, at each start. */
#define NOW(out, in) \
    do { \
        struct place here = place_in(comm); \
        (void)here; \
        SENT(out); \
        RECEIVED(in); \
    } while (0)
#define LATER(out, in) \
    do { \
        struct place here = place_in(comm); \
        (void)here; \
        remember(*request, out, in); \
    } while (0)
#define IN_PLACE(buffer) ((buffer) == MPI_IN_PLACE)

#define RULE_Bcast(MOVE) \
    MOVE(is_root(&here, root) ? bytes(count, datatype) : 0, \
         !is_root(&here, root) && gives_to(&here, root) ? bytes(count, datatype) : 0)
#define RULE_Gather(MOVE) \
    MOVE(gives_to(&here, root) && !IN_PLACE(sendbuf) ? bytes(sendcount, sendtype) : 0, \
         is_root(&here, root) ? here.members * bytes(recvcount, recvtype) : 0)
#define RULE_Gatherv(MOVE) \
    MOVE(gives_to(&here, root) && !IN_PLACE(sendbuf) ? bytes(sendcount, sendtype) : 0, \
         is_root(&here, root) ? sum(recvcounts, here.members, recvtype) : 0)
#define RULE_Scatter(MOVE) \
    MOVE(is_root(&here, root) ? here.members * bytes(sendcount, sendtype) : 0, \
         gives_to(&here, root) && !IN_PLACE(recvbuf) ? bytes(recvcount, recvtype) : 0)
#define RULE_Scatterv(MOVE) \
    MOVE(is_root(&here, root) ? sum(sendcounts, here.members, sendtype) : 0, \
         gives_to(&here, root) && !IN_PLACE(recvbuf) ? bytes(recvcount, recvtype) : 0)
#define RULE_Allgather(MOVE) \
    MOVE(IN_PLACE(sendbuf) ? bytes(recvcount, recvtype) : bytes(sendcount, sendtype), \
         here.members * bytes(recvcount, recvtype))
#define RULE_Allgatherv(MOVE) \
    MOVE(IN_PLACE(sendbuf) ? bytes(recvcounts[here.rank], recvtype) : bytes(sendcount, sendtype), \
         sum(recvcounts, here.members, recvtype))
#define RULE_Alltoall(MOVE) \
    MOVE(here.members * (IN_PLACE(sendbuf) ? bytes(recvcount, recvtype) : bytes(sendcount, sendtype)), \
         here.members * bytes(recvcount, recvtype))
#define RULE_Alltoallv(MOVE) \
    MOVE(IN_PLACE(sendbuf) ? sum(recvcounts, here.members, recvtype) \
                           : sum(sendcounts, here.members, sendtype), \
         sum(recvcounts, here.members, recvtype))
#define RULE_Alltoallw(MOVE) \
    MOVE(IN_PLACE(sendbuf) ? typed_sum(recvcounts, here.members, recvtypes) \
                           : typed_sum(sendcounts, here.members, sendtypes), \
         typed_sum(recvcounts, here.members, recvtypes))
#define RULE_Reduce(MOVE) \
    MOVE(gives_to(&here, root) ? bytes(count, datatype) : 0, \
         is_root(&here, root) ? bytes(count, datatype) : 0)
#define RULE_Allreduce(MOVE) MOVE(bytes(count, datatype), bytes(count, datatype))
#define RULE_Reduce_scatter(MOVE) \
    MOVE(sum(recvcounts, here.local, datatype), bytes(recvcounts[here.rank], datatype))
#define RULE_Reduce_scatter_block(MOVE) \
    MOVE(here.local * bytes(recvcount, datatype), bytes(recvcount, datatype))

#define BYTES_Bcast RULE_Bcast(NOW)
#define BYTES_Ibcast RULE_Bcast(NOW)
#define BYTES_Bcast_init RULE_Bcast(LATER)
#define BYTES_Gather RULE_Gather(NOW)
#define BYTES_Igather RULE_Gather(NOW)
#define BYTES_Gather_init RULE_Gather(LATER)
#define BYTES_Gatherv RULE_Gatherv(NOW)
#define BYTES_Igatherv RULE_Gatherv(NOW)
#define BYTES_Gatherv_init RULE_Gatherv(LATER)
#define BYTES_Scatter RULE_Scatter(NOW)
#define BYTES_Iscatter RULE_Scatter(NOW)
#define BYTES_Scatter_init RULE_Scatter(LATER)
#define BYTES_Scatterv RULE_Scatterv(NOW)
#define BYTES_Iscatterv RULE_Scatterv(NOW)
#define BYTES_Scatterv_init RULE_Scatterv(LATER)
#define BYTES_Allgather RULE_Allgather(NOW)
#define BYTES_Iallgather RULE_Allgather(NOW)
#define BYTES_Allgather_init RULE_Allgather(LATER)
#define BYTES_Allgatherv RULE_Allgatherv(NOW)
#define BYTES_Iallgatherv RULE_Allgatherv(NOW)
#define BYTES_Allgatherv_init RULE_Allgatherv(LATER)
#define BYTES_Alltoall RULE_Alltoall(NOW)
#define BYTES_Ialltoall RULE_Alltoall(NOW)
#define BYTES_Alltoall_init RULE_Alltoall(LATER)
#define BYTES_Alltoallv RULE_Alltoallv(NOW)
#define BYTES_Ialltoallv RULE_Alltoallv(NOW)
#define BYTES_Alltoallv_init RULE_Alltoallv(LATER)
#define BYTES_Alltoallw RULE_Alltoallw(NOW)
#define BYTES_Ialltoallw RULE_Alltoallw(NOW)
#define BYTES_Alltoallw_init RULE_Alltoallw(LATER)
#define BYTES_Reduce RULE_Reduce(NOW)
#define BYTES_Ireduce RULE_Reduce(NOW)
#define BYTES_Reduce_init RULE_Reduce(LATER)
#define BYTES_Allreduce RULE_Allreduce(NOW)
#define BYTES_Iallreduce RULE_Allreduce(NOW)
#define BYTES_Allreduce_init RULE_Allreduce(LATER)
#define BYTES_Scan RULE_Allreduce(NOW)
#define BYTES_Iscan RULE_Allreduce(NOW)
#define BYTES_Scan_init RULE_Allreduce(LATER)
#define BYTES_Exscan RULE_Allreduce(NOW)
#define BYTES_Iexscan RULE_Allreduce(NOW)
#define BYTES_Exscan_init RULE_Allreduce(LATER)
#define BYTES_Reduce_scatter RULE_Reduce_scatter(NOW)
#define BYTES_Ireduce_scatter RULE_Reduce_scatter(NOW)
#define BYTES_Reduce_scatter_init RULE_Reduce_scatter(LATER)
#define BYTES_Reduce_scatter_block RULE_Reduce_scatter_block(NOW)
#define BYTES_Ireduce_scatter_block RULE_Reduce_scatter_block(NOW)
#define BYTES_Reduce_scatter_block_init RULE_Reduce_scatter_block(LATER)

/* Among neighbours in a topology (8.6). */
#define NEAR_NOW(out, in) \
    do { \
        struct near here = near_in(comm); \
        SENT(out); \
        RECEIVED(in); \
    } while (0)
#define NEAR_LATER(out, in) \
    do { \
        struct near here = near_in(comm); \
        remember(*request, out, in); \
    } while (0)
#define RULE_Neighbor_allgather(MOVE) \
    MOVE(near_times(&here, here.out, bytes(sendcount, sendtype)), \
         near_times(&here, here.in, bytes(recvcount, recvtype)))
#define RULE_Neighbor_alltoall(MOVE) RULE_Neighbor_allgather(MOVE)
#define RULE_Neighbor_allgatherv(MOVE) \
    MOVE(near_times(&here, here.out, bytes(sendcount, sendtype)), \
         near_sum(&here, here.in, recvcounts, recvtype))
#define RULE_Neighbor_alltoallv(MOVE) \
    MOVE(near_sum(&here, here.out, sendcounts, sendtype), near_sum(&here, here.in, recvcounts, recvtype))
#define RULE_Neighbor_alltoallw(MOVE) \
    MOVE(near_typed_sum(&here, here.out, sendcounts, sendtypes), \
         near_typed_sum(&here, here.in, recvcounts, recvtypes))

#define BYTES_Neighbor_allgather RULE_Neighbor_allgather(NEAR_NOW)
#define BYTES_Ineighbor_allgather RULE_Neighbor_allgather(NEAR_NOW)
#define BYTES_Neighbor_allgather_init RULE_Neighbor_allgather(NEAR_LATER)
#define BYTES_Neighbor_allgatherv RULE_Neighbor_allgatherv(NEAR_NOW)
#define BYTES_Ineighbor_allgatherv RULE_Neighbor_allgatherv(NEAR_NOW)
#define BYTES_Neighbor_allgatherv_init RULE_Neighbor_allgatherv(NEAR_LATER)
#define BYTES_Neighbor_alltoall RULE_Neighbor_alltoall(NEAR_NOW)
#define BYTES_Ineighbor_alltoall RULE_Neighbor_alltoall(NEAR_NOW)
#define BYTES_Neighbor_alltoall_init RULE_Neighbor_alltoall(NEAR_LATER)
#define BYTES_Neighbor_alltoallv RULE_Neighbor_alltoallv(NEAR_NOW)
#define BYTES_Ineighbor_alltoallv RULE_Neighbor_alltoallv(NEAR_NOW)
#define BYTES_Neighbor_alltoallv_init RULE_Neighbor_alltoallv(NEAR_LATER)
#define BYTES_Neighbor_alltoallw RULE_Neighbor_alltoallw(NEAR_NOW)
#define BYTES_Ineighbor_alltoallw RULE_Neighbor_alltoallw(NEAR_NOW)
#define BYTES_Neighbor_alltoallw_init RULE_Neighbor_alltoallw(NEAR_LATER)

/* Access to others' memory (chapter 12), by the caller's own buffers. */
#define BYTES_Put SENT(moved(target_rank, origin_count, origin_datatype))
#define BYTES_Rput BYTES_Put
#define BYTES_Accumulate BYTES_Put
#define BYTES_Raccumulate BYTES_Put
#define BYTES_Get RECEIVED(moved(target_rank, origin_count, origin_datatype))
#define BYTES_Fetch_and_op \
    SENT(op == MPI_NO_OP ? 0 : moved(target_rank, 1, datatype)); \
    RECEIVED(moved(target_rank, 1, datatype))
#define BYTES_Compare_and_swap \
    SENT(moved(target_rank, 1, datatype)); \
    RECEIVED(moved(target_rank, 1, datatype))
#define BYTES_Get_accumulate \
    SENT(op == MPI_NO_OP ? 0 : moved(target_rank, origin_count, origin_datatype)); \
    RECEIVED(moved(target_rank, result_count, result_datatype))
