! A matrix that is spread over a grid of ranks is transposed there and back, by all-to-all exchanges
! within rows and within columns: what NPB's FT does, in small. Says whether it came back.
#ifdef USE_F08
#define COMM type(MPI_Comm)
#else
#define COMM integer
#endif
program transpose_on_grid
#ifdef USE_F08
  use mpi_f08
#endif
  implicit none
#ifndef USE_F08
  include 'mpif.h'
#endif
  integer, parameter :: block = 32, rounds = 20
  integer :: rank, ranks, width, error, round, members
  double precision, allocatable :: a(:,:), b(:,:), first(:,:)
  double precision :: part, total
  logical :: back, all_back
  COMM :: row, column

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  width = 1
  if (mod(ranks, 2) == 0) width = 2
  call MPI_Comm_split(MPI_COMM_WORLD, rank / width, rank, row, error)
  call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, width), rank, column, error)
  allocate (a(block, ranks), b(block, ranks), first(block, ranks))
  call fill(first)
  a = first
  do round = 1, rounds
    call exchange(row)
    call exchange(column)
  end do
  part = sum(a * first)
  call MPI_Allreduce(part, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
  back = all(a == first)
  call MPI_Reduce(back, all_back, 1, MPI_LOGICAL, MPI_LAND, 0, MPI_COMM_WORLD, error)
  if (rank == 0) print '(a,f20.6,a,l2)', 'transpose: checksum', total, ' back', all_back
  call MPI_Comm_free(row, error)
  call MPI_Comm_free(column, error)
  call MPI_Finalize(error)
contains
  subroutine fill(matrix)
    double precision, intent(out) :: matrix(block, ranks)
    integer :: i, j
    do j = 1, ranks
      do i = 1, block
        matrix(i, j) = mod(17 * i + 31 * j + 101 * rank, 97)
      end do
    end do
  end subroutine

  ! Exchanges a column with each member: done twice, all is where it was.
  subroutine exchange(among)
    COMM, intent(in) :: among
    call MPI_Comm_size(among, members, error)
    call MPI_Alltoall(a, block, MPI_DOUBLE_PRECISION, b, block, MPI_DOUBLE_PRECISION, among, error)
    a(:, 1:members) = b(:, 1:members)
    call MPI_Alltoall(a, block, MPI_DOUBLE_PRECISION, b, block, MPI_DOUBLE_PRECISION, among, error)
    a(:, 1:members) = b(:, 1:members)
  end subroutine
end program
