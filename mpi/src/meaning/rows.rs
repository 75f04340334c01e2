//! One row for base functions of one meaning: names without `MPI_` and without the affixes of forms.
//!
//! Read by `forms`, which derives the other functions. `asks` marks functions that query the library or the process
//! itself or describe data; `polls` marks functions that programs repeat until an event.

use super::{Access, CallKind, Completes, Creation, Epoch, Meeting, Object, Phase, SendMode};
use crate::operation::Operation;

/// The meaning of base functions.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) names: &'static [&'static str],
    pub(super) kind: CallKind,
    pub(super) phase: Phase,
    pub(super) meeting: Meeting,
    pub(super) polls: bool,
    pub(super) asks: bool,
}

const fn row(names: &'static [&'static str], kind: CallKind) -> Row {
    Row {
        names,
        kind,
        phase: Phase::Done,
        meeting: Meeting::Nobody,
        polls: false,
        asks: false,
    }
}

impl Row {
    const fn meets(mut self, meeting: Meeting) -> Self {
        self.meeting = meeting;
        self
    }

    const fn polls(mut self) -> Self {
        self.polls = true;
        self
    }

    const fn asks(mut self) -> Self {
        self.asks = true;
        self
    }

    /// The base function begins an operation that a request completes (`MPI_Rput`).
    const fn begins(mut self) -> Self {
        self.phase = Phase::Begun;
        self
    }
}

/// All rows, by subject.
#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    // Begin and end.
    row(&["Init", "Init_thread"], CallKind::Init).meets(Meeting::World),
    row(&["Finalize"], CallKind::Finalize).meets(Meeting::World),
    row(&["Abort"], CallKind::Abort),
    row(&["Initialized", "Finalized", "Is_thread_main", "Query_thread"], CallKind::Local).asks(),
    row(&["Session_init"], CallKind::Make(Object::Session)),
    row(&["Session_finalize"], CallKind::Free(Object::Session)),
    row(&["Session_get_info", "Session_get_nth_pset", "Session_get_num_psets", "Session_get_pset_info", "Session_get_errhandler", "Session_c2f", "Session_f2c", "Session_toint", "Session_fromint"], CallKind::Ask(Object::Session)).asks(),
    row(&["Session_set_errhandler"], CallKind::Set(Object::Session)).asks(),
    row(&["Session_call_errhandler"], CallKind::Local),
    row(&["Session_create_errhandler"], CallKind::Make(Object::Other)),
    row(&["Wtime", "Wtick"], CallKind::Clock).polls().asks(),
    // Messages.
    row(&["Send"], CallKind::Send(SendMode::Standard)),
    row(&["Bsend"], CallKind::Send(SendMode::Buffered)),
    row(&["Ssend"], CallKind::Send(SendMode::Synchronous)),
    row(&["Rsend"], CallKind::Send(SendMode::Ready)),
    row(&["Recv"], CallKind::Receive),
    row(&["Sendrecv", "Sendrecv_replace"], CallKind::SendReceive),
    row(&["Psend"], CallKind::SendPartitioned),
    row(&["Precv"], CallKind::ReceivePartitioned),
    row(&["Pready", "Pready_list", "Pready_range"], CallKind::Ready),
    row(&["Parrived"], CallKind::Arrived).polls(),
    row(&["Mrecv"], CallKind::ReceiveMatched),
    row(&["Probe"], CallKind::Probe),
    row(&["Iprobe"], CallKind::Probe).polls(),
    row(&["Mprobe"], CallKind::ProbeMatched),
    row(&["Improbe"], CallKind::ProbeMatched).polls(),
    row(&["Buffer_attach", "Comm_attach_buffer", "Session_attach_buffer"], CallKind::Make(Object::Buffer)),
    row(&["Buffer_detach", "Comm_detach_buffer", "Session_detach_buffer"], CallKind::Free(Object::Buffer)),
    row(&["Buffer_flush", "Comm_flush_buffer", "Session_flush_buffer"], CallKind::Set(Object::Buffer)),
    // Requests.
    row(&["Wait"], CallKind::Complete(Completes::One)),
    row(&["Test"], CallKind::Complete(Completes::One)).polls(),
    row(&["Waitall"], CallKind::Complete(Completes::All)),
    row(&["Testall"], CallKind::Complete(Completes::All)).polls(),
    row(&["Waitany"], CallKind::Complete(Completes::Any)),
    row(&["Testany"], CallKind::Complete(Completes::Any)).polls(),
    row(&["Waitsome"], CallKind::Complete(Completes::Some)),
    row(&["Testsome"], CallKind::Complete(Completes::Some)).polls(),
    row(&["Start", "Startall"], CallKind::Start),
    row(&["Cancel"], CallKind::Cancel),
    row(&["Request_free"], CallKind::FreeRequest),
    row(&["Request_get_status", "Request_get_status_all", "Request_get_status_any", "Request_get_status_some"], CallKind::Local).polls().asks(),
    row(&["Request_c2f", "Request_f2c", "Request_toint", "Request_fromint", "Test_cancelled"], CallKind::Local).asks(),
    row(&["Message_c2f", "Message_f2c", "Message_toint", "Message_fromint"], CallKind::Local).asks(),
    row(&["Status_c2f", "Status_c2f08", "Status_f082c", "Status_f082f", "Status_f2c", "Status_f2f08", "Status_set_cancelled", "Status_set_elements", "Status_set_elements_x", "Status_get_error", "Status_get_source", "Status_get_tag", "Status_set_error", "Status_set_source", "Status_set_tag", "Get_count", "Get_elements", "Get_elements_x"], CallKind::Local).asks(),
    row(&["Grequest_start", "Grequest_complete"], CallKind::Local),
    // Collective operations.
    row(&["Barrier"], CallKind::Collective(Operation::Barrier)),
    row(&["Bcast"], CallKind::Collective(Operation::Broadcast)),
    row(&["Gather"], CallKind::Collective(Operation::Gather)),
    row(&["Gatherv"], CallKind::Collective(Operation::Gatherv)),
    row(&["Scatter"], CallKind::Collective(Operation::Scatter)),
    row(&["Scatterv"], CallKind::Collective(Operation::Scatterv)),
    row(&["Allgather"], CallKind::Collective(Operation::Allgather)),
    row(&["Allgatherv"], CallKind::Collective(Operation::Allgatherv)),
    row(&["Alltoall"], CallKind::Collective(Operation::Alltoall)),
    row(&["Alltoallv"], CallKind::Collective(Operation::Alltoallv)),
    row(&["Alltoallw"], CallKind::Collective(Operation::Alltoallw)),
    row(&["Reduce"], CallKind::Collective(Operation::Reduce)),
    row(&["Allreduce"], CallKind::Collective(Operation::Allreduce)),
    row(&["Reduce_scatter"], CallKind::Collective(Operation::ReduceScatter)),
    row(&["Reduce_scatter_block"], CallKind::Collective(Operation::ReduceScatterBlock)),
    row(&["Scan"], CallKind::Collective(Operation::Scan)),
    row(&["Exscan"], CallKind::Collective(Operation::Exscan)),
    row(&["Neighbor_allgather"], CallKind::Collective(Operation::NeighborAllgather)),
    row(&["Neighbor_allgatherv"], CallKind::Collective(Operation::NeighborAllgatherv)),
    row(&["Neighbor_alltoall"], CallKind::Collective(Operation::NeighborAlltoall)),
    row(&["Neighbor_alltoallv"], CallKind::Collective(Operation::NeighborAlltoallv)),
    row(&["Neighbor_alltoallw"], CallKind::Collective(Operation::NeighborAlltoallw)),
    row(&["Reduce_local"], CallKind::Local),
    row(&["Op_create"], CallKind::Make(Object::Reduction)),
    row(&["Op_free"], CallKind::Free(Object::Reduction)),
    row(&["Op_commutative", "Op_c2f", "Op_f2c", "Op_toint", "Op_fromint"], CallKind::Ask(Object::Reduction)).asks(),
    // Accesses to windows.
    row(&["Put"], CallKind::Access(Access::Put)),
    row(&["Rput"], CallKind::Access(Access::Put)).begins(),
    row(&["Get"], CallKind::Access(Access::Get)),
    row(&["Rget"], CallKind::Access(Access::Get)).begins(),
    row(&["Accumulate"], CallKind::Access(Access::Accumulate)),
    row(&["Raccumulate"], CallKind::Access(Access::Accumulate)).begins(),
    row(&["Get_accumulate"], CallKind::Access(Access::GetAccumulate)),
    row(&["Rget_accumulate"], CallKind::Access(Access::GetAccumulate)).begins(),
    row(&["Fetch_and_op"], CallKind::Access(Access::FetchAndOp)),
    row(&["Compare_and_swap"], CallKind::Access(Access::CompareAndSwap)),
    row(&["Win_create", "Win_create_dynamic", "Win_allocate", "Win_allocate_shared"], CallKind::Make(Object::Window)).meets(Meeting::Communicator),
    row(&["Win_free"], CallKind::Free(Object::Window)).meets(Meeting::Window),
    row(&["Win_fence"], CallKind::Epoch(Epoch::Fence)).meets(Meeting::Window),
    row(&["Win_post"], CallKind::Epoch(Epoch::Post)),
    row(&["Win_start"], CallKind::Epoch(Epoch::Start)),
    row(&["Win_complete"], CallKind::Epoch(Epoch::Complete)),
    row(&["Win_wait"], CallKind::Epoch(Epoch::Wait)),
    row(&["Win_lock"], CallKind::Epoch(Epoch::Lock)),
    row(&["Win_lock_all"], CallKind::Epoch(Epoch::LockAll)),
    row(&["Win_unlock"], CallKind::Epoch(Epoch::Unlock)),
    row(&["Win_unlock_all"], CallKind::Epoch(Epoch::UnlockAll)),
    row(&["Win_sync"], CallKind::Epoch(Epoch::Sync)),
    row(&["Win_test"], CallKind::Epoch(Epoch::Test)).polls(),
    row(&["Win_flush", "Win_flush_all"], CallKind::Epoch(Epoch::Flush)),
    row(&["Win_flush_local", "Win_flush_local_all"], CallKind::Epoch(Epoch::FlushLocal)),
    row(&["Win_attach", "Win_detach"], CallKind::Set(Object::Window)),
    row(&["Win_set_attr", "Win_set_errhandler", "Win_set_info", "Win_set_name", "Win_delete_attr"], CallKind::Set(Object::Window)).asks(),
    row(&["Win_get_attr", "Win_get_errhandler", "Win_get_info", "Win_get_name", "Win_shared_query", "Win_c2f", "Win_f2c", "Win_toint", "Win_fromint"], CallKind::Ask(Object::Window)).asks(),
    row(&["Win_get_group"], CallKind::Make(Object::Group)).asks(),
    row(&["Win_create_errhandler", "Win_create_keyval"], CallKind::Make(Object::Other)),
    row(&["Win_free_keyval"], CallKind::Free(Object::Other)),
    row(&["Win_call_errhandler"], CallKind::Local),
    row(&["Alloc_mem", "Free_mem"], CallKind::Local),
    // Communicators.
    row(&["Comm_dup", "Comm_dup_with_info", "Comm_split", "Comm_split_type", "Comm_create"], CallKind::MakeCommunicator(Creation::OfParent)).meets(Meeting::Communicator),
    row(&["Cart_create", "Cart_sub", "Graph_create", "Dist_graph_create", "Dist_graph_create_adjacent", "Intercomm_merge"], CallKind::MakeCommunicator(Creation::OfParent)).meets(Meeting::Communicator),
    row(&["Intercomm_create"], CallKind::MakeCommunicator(Creation::OfParent)).meets(Meeting::NewCommunicator),
    row(&["Comm_create_group", "Comm_create_from_group", "Intercomm_create_from_groups"], CallKind::MakeCommunicator(Creation::OfMembers)).meets(Meeting::NewCommunicator),
    row(&["Comm_spawn", "Comm_spawn_multiple", "Comm_accept", "Comm_connect"], CallKind::MakeCommunicator(Creation::Across)).meets(Meeting::Others),
    row(&["Comm_join"], CallKind::MakeCommunicator(Creation::Across)).meets(Meeting::Others),
    row(&["Comm_get_parent"], CallKind::MakeCommunicator(Creation::Existing)).asks(),
    row(&["Comm_shrink"], CallKind::MakeCommunicator(Creation::OfMembers)).meets(Meeting::NewCommunicator),
    row(&["Comm_agree"], CallKind::Set(Object::Communicator)).meets(Meeting::Communicator),
    row(&["Comm_revoke", "Comm_failure_ack", "Comm_ack_failed"], CallKind::Set(Object::Communicator)),
    row(&["Comm_failure_get_acked", "Comm_get_failed"], CallKind::Make(Object::Group)),
    row(&["Comm_is_revoked"], CallKind::Ask(Object::Communicator)).asks(),
    row(&["Comm_free"], CallKind::Free(Object::Communicator)).meets(Meeting::Communicator),
    row(&["Comm_disconnect"], CallKind::Free(Object::Communicator)).meets(Meeting::Communicator),
    row(&["Comm_rank", "Comm_size", "Comm_remote_size", "Comm_test_inter", "Comm_compare", "Comm_c2f", "Comm_f2c", "Comm_toint", "Comm_fromint", "Comm_get_attr", "Comm_get_errhandler", "Comm_get_info", "Comm_get_name"], CallKind::Ask(Object::Communicator)).asks(),
    row(&["Comm_set_attr", "Comm_set_errhandler", "Comm_set_info", "Comm_set_name", "Comm_delete_attr", "Attr_delete", "Attr_put", "Errhandler_set"], CallKind::Set(Object::Communicator)).asks(),
    row(&["Attr_get", "Errhandler_get"], CallKind::Ask(Object::Communicator)).asks(),
    row(&["Comm_group", "Comm_remote_group"], CallKind::Make(Object::Group)),
    row(&["Comm_create_errhandler", "Comm_create_keyval", "Errhandler_create", "Keyval_create"], CallKind::Make(Object::Other)),
    row(&["Comm_free_keyval", "Errhandler_free", "Keyval_free"], CallKind::Free(Object::Other)),
    row(&["Comm_call_errhandler"], CallKind::Local),
    row(&["Cart_coords", "Cart_get", "Cart_map", "Cart_rank", "Cart_shift", "Cartdim_get", "Dims_create", "Graph_get", "Graph_map", "Graph_neighbors", "Graph_neighbors_count", "Graphdims_get", "Topo_test", "Dist_graph_neighbors", "Dist_graph_neighbors_count"], CallKind::Ask(Object::Communicator)).asks(),
    row(&["Open_port", "Close_port", "Publish_name", "Unpublish_name", "Lookup_name"], CallKind::Local),
    // Groups.
    row(&["Group_incl", "Group_excl", "Group_range_incl", "Group_range_excl", "Group_union", "Group_intersection", "Group_difference", "Group_from_session_pset"], CallKind::Make(Object::Group)).asks(),
    row(&["Group_free"], CallKind::Free(Object::Group)).asks(),
    row(&["Group_compare", "Group_rank", "Group_size", "Group_translate_ranks", "Group_c2f", "Group_f2c", "Group_toint", "Group_fromint"], CallKind::Ask(Object::Group)).asks(),
    // Datatypes.
    row(&["Type_contiguous", "Type_create_darray", "Type_create_f90_complex", "Type_create_f90_integer", "Type_create_f90_real", "Type_create_hindexed", "Type_create_hindexed_block", "Type_create_hvector", "Type_create_indexed_block", "Type_create_resized", "Type_create_struct", "Type_create_subarray", "Type_dup", "Type_hindexed", "Type_hvector", "Type_indexed", "Type_struct", "Type_vector", "Type_match_size"], CallKind::Make(Object::Datatype)).asks(),
    row(&["Type_commit", "Type_set_attr", "Type_set_name", "Type_delete_attr"], CallKind::Set(Object::Datatype)).asks(),
    row(&["Type_free"], CallKind::Free(Object::Datatype)).asks(),
    row(&["Type_create_keyval"], CallKind::Make(Object::Other)).asks(),
    row(&["Type_free_keyval"], CallKind::Free(Object::Other)).asks(),
    row(&["Type_size", "Type_size_x", "Type_extent", "Type_get_extent", "Type_get_extent_x", "Type_get_true_extent", "Type_get_true_extent_x", "Type_lb", "Type_ub", "Type_get_attr", "Type_get_contents", "Type_get_envelope", "Type_get_name", "Type_get_value_index", "Type_c2f", "Type_f2c", "Type_toint", "Type_fromint"], CallKind::Ask(Object::Datatype)).asks(),
    row(&["Pack", "Unpack", "Pack_external", "Unpack_external"], CallKind::Local),
    row(&["Pack_size", "Pack_external_size", "Address", "Get_address", "Aint_add", "Aint_diff"], CallKind::Local).asks(),
    row(&["Register_datarep"], CallKind::Make(Object::Other)),
    // Files.
    row(&["File_open"], CallKind::Make(Object::File)).meets(Meeting::Communicator),
    row(&["File_close"], CallKind::Free(Object::File)).meets(Meeting::File),
    row(&["File_delete"], CallKind::FileAccess),
    row(&["File_read", "File_read_at", "File_read_shared", "File_write", "File_write_at", "File_write_shared", "File_seek"], CallKind::FileAccess),
    row(&["File_read_all", "File_read_at_all", "File_read_ordered", "File_write_all", "File_write_at_all", "File_write_ordered", "File_read_all_begin", "File_read_at_all_begin", "File_read_ordered_begin", "File_write_all_begin", "File_write_at_all_begin", "File_write_ordered_begin", "File_read_all_end", "File_read_at_all_end", "File_read_ordered_end", "File_write_all_end", "File_write_at_all_end", "File_write_ordered_end", "File_preallocate", "File_seek_shared", "File_sync"], CallKind::FileAccess).meets(Meeting::File),
    row(&["File_set_atomicity", "File_set_size", "File_set_view", "File_set_info"], CallKind::Set(Object::File)).meets(Meeting::File),
    row(&["File_set_errhandler"], CallKind::Set(Object::File)).asks(),
    row(&["File_get_amode", "File_get_atomicity", "File_get_byte_offset", "File_get_errhandler", "File_get_info", "File_get_position", "File_get_position_shared", "File_get_size", "File_get_type_extent", "File_get_view", "File_c2f", "File_f2c", "File_toint", "File_fromint"], CallKind::Ask(Object::File)).asks(),
    row(&["File_get_group"], CallKind::Make(Object::Group)).asks(),
    row(&["File_call_errhandler"], CallKind::Local),
    row(&["File_create_errhandler"], CallKind::Make(Object::Other)),
    // The library and its environment.
    row(&["Info_create", "Info_create_env", "Info_dup"], CallKind::Make(Object::Other)),
    row(&["Info_free"], CallKind::Free(Object::Other)),
    row(&["Info_set", "Info_delete"], CallKind::Set(Object::Other)),
    row(&["Info_get", "Info_get_nkeys", "Info_get_nthkey", "Info_get_string", "Info_get_valuelen", "Info_c2f", "Info_f2c", "Info_toint", "Info_fromint"], CallKind::Ask(Object::Other)).asks(),
    row(&["Errhandler_c2f", "Errhandler_f2c", "Errhandler_toint", "Errhandler_fromint"], CallKind::Ask(Object::Other)).asks(),
    row(&["Add_error_class", "Add_error_code", "Add_error_string", "Remove_error_class", "Remove_error_code", "Remove_error_string"], CallKind::Set(Object::Other)),
    row(&["Error_class", "Error_string", "Get_library_version", "Get_processor_name", "Get_version", "Get_hw_resource_info"], CallKind::Local).asks(),
    row(&["Abi_get_version", "Abi_get_info", "Abi_get_fortran_info", "Abi_get_fortran_booleans"], CallKind::Local).asks(),
    row(&["Abi_set_fortran_info", "Abi_set_fortran_booleans"], CallKind::Set(Object::Other)).asks(),
    row(&["Pcontrol"], CallKind::Local),
];
