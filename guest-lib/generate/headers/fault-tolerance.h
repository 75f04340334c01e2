/* User-Level Failure Mitigation, as MPICH and Open MPI extend MPI by it.
 *
 * Prototypes as the standard gives them, for the table of functions. Not installed, and included by no program. */

typedef long MPI_Aint;
typedef long long MPI_Count, MPI_Offset;
typedef int MPI_Fint;
typedef void *MPI_Comm, *MPI_Datatype, *MPI_Errhandler, *MPI_File, *MPI_Group, *MPI_Info, *MPI_Message, *MPI_Op, *MPI_Request, *MPI_Session, *MPI_Win;
typedef struct { int MPI_SOURCE, MPI_TAG, MPI_ERROR; } MPI_Status;

int MPIX_Comm_revoke(MPI_Comm comm);
int MPIX_Comm_is_revoked(MPI_Comm comm, int *flag);
int MPIX_Comm_shrink(MPI_Comm comm, MPI_Comm *newcomm);
int MPIX_Comm_ishrink(MPI_Comm comm, MPI_Comm *newcomm, MPI_Request *request);
int MPIX_Comm_agree(MPI_Comm comm, int *flag);
int MPIX_Comm_iagree(MPI_Comm comm, int *flag, MPI_Request *request);
int MPIX_Comm_failure_ack(MPI_Comm comm);
int MPIX_Comm_failure_get_acked(MPI_Comm comm, MPI_Group *failedgrp);
int MPIX_Comm_get_failed(MPI_Comm comm, MPI_Group *failedgrp);
int MPIX_Comm_ack_failed(MPI_Comm comm, int num_to_ack, int *num_acked);
