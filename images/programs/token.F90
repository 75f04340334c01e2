! A token goes once round; each rank adds its number. By Fortran's own entry points all the way, one of three.
program token
#if defined(USE_F08)
  use mpi_f08
#elif defined(USE_MODULE)
  use mpi
#endif
  implicit none
#if defined(USE_MPIFH)
  include 'mpif.h'
#endif
#if defined(USE_F08)
  type(MPI_Status) :: status(2)
  type(MPI_Request) :: requests(2)
#else
  integer :: status(MPI_STATUS_SIZE, 2), requests(2)
#endif
  integer :: rank, n, value, sent, sum, err
  call MPI_INIT(err)
  call MPI_COMM_RANK(MPI_COMM_WORLD, rank, err)
  call MPI_COMM_SIZE(MPI_COMM_WORLD, n, err)
  value = 0
  if (rank > 0) then
#if defined(USE_F08)
    call MPI_RECV(value, 1, MPI_INTEGER, rank - 1, 5, MPI_COMM_WORLD, status(1), err)
#else
    call MPI_RECV(value, 1, MPI_INTEGER, rank - 1, 5, MPI_COMM_WORLD, status(:, 1), err)
#endif
  end if
  value = value + rank
  if (rank < n - 1) call MPI_SEND(value, 1, MPI_INTEGER, rank + 1, 5, MPI_COMM_WORLD, err)
  sum = rank
  call MPI_ALLREDUCE(MPI_IN_PLACE, sum, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, err)
  sent = rank
  call MPI_IRECV(value, 1, MPI_INTEGER, mod(rank + n - 1, n), 6, MPI_COMM_WORLD, requests(1), err)
  call MPI_ISEND(sent, 1, MPI_INTEGER, mod(rank + 1, n), 6, MPI_COMM_WORLD, requests(2), err)
  call MPI_WAITALL(2, requests, status, err)
  if (rank == 0) print '(a,i0,a,i0)', 'token: sum ', sum, ' from the left ', value
  call MPI_FINALIZE(err)
end program
