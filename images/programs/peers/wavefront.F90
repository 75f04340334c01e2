! A sweep over planes that are spread over ranks: each waits for the edge of the one before it, from
! whoever sends it, and hands its own on; the last tells the first: what NPB's LU does, in small.
! Edges are columns of a matrix, of a datatype made for them. Says a checksum.
#ifdef USE_F08
#define TYPE_OF type(MPI_Datatype)
#else
#define TYPE_OF integer
#endif
program wavefront
#ifdef USE_F08
  use mpi_f08
#endif
  implicit none
#ifndef USE_F08
  include 'mpif.h'
#endif
  integer, parameter :: height = 24, width = 24, planes = 60
  integer :: rank, ranks, error, plane, i, j, size
  double precision :: grid(height, 0:width), total, part
  TYPE_OF :: edge
#ifdef USE_F08
  type(MPI_Status) :: status
#else
  integer :: status(MPI_STATUS_SIZE)
#endif

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  call MPI_Type_vector(height / 2, 1, 2, MPI_DOUBLE_PRECISION, edge, error)
  call MPI_Type_commit(edge, error)
  call MPI_Type_size(edge, size, error)
  grid = rank + 1
  do plane = 1, planes
    if (rank > 0) then
      call MPI_Probe(MPI_ANY_SOURCE, plane, MPI_COMM_WORLD, status, error)
      call MPI_Recv(grid(1, 0), 1, edge, MPI_ANY_SOURCE, plane, MPI_COMM_WORLD, status, error)
    end if
    do j = 1, width
      do i = 1, height
        grid(i, j) = 0.25d0 * (grid(i, j) + grid(i, j-1) + grid(max(i-1, 1), j) + plane)
      end do
    end do
    if (rank < ranks - 1) call MPI_Send(grid(1, width), 1, edge, rank + 1, plane, MPI_COMM_WORLD, error)
  end do
  part = sum(grid(:, 1:width))
  call MPI_Reduce(part, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, 0, MPI_COMM_WORLD, error)
  if (rank == 0) print '(a,i4,a,f20.6)', 'wavefront: edge', size, ' checksum', total
  call MPI_Type_free(edge, error)
  call MPI_Barrier(MPI_COMM_WORLD, error)
  call MPI_Finalize(error)
end program
