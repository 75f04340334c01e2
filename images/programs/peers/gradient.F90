! Conjugate gradients on a one-dimensional Laplacian, the halo exchanged by nonblocking messages and
! sums made by reductions: what NPB's CG does, in small. Says how far the solution is off.
#ifdef USE_F08
#define COMM type(MPI_Comm)
#define REQUEST type(MPI_Request)
#else
#define COMM integer
#define REQUEST integer
#endif
program gradient
#ifdef USE_F08
  use mpi_f08
#endif
  implicit none
#ifndef USE_F08
  include 'mpif.h'
#endif
  integer, parameter :: own = 200, rounds = 1000
  integer :: rank, ranks, left, right, error, round, i
  double precision :: x(own), r(own), p(0:own+1), q(own), rho, before, off, worst
  COMM :: line
  REQUEST :: requests(4)

  call MPI_Init(error)
  call MPI_Cart_create(MPI_COMM_WORLD, 1, (/ all_ranks() /), (/ .false. /), .true., line, error)
  call MPI_Comm_rank(line, rank, error)
  call MPI_Comm_size(line, ranks, error)
  call MPI_Cart_shift(line, 0, 1, left, right, error)
  x = 0
  ! The solution that is looked for has a one everywhere.
  r = 0
  if (rank == 0) r(1) = 1
  if (rank == ranks - 1) r(own) = r(own) + 1
  p = 0
  p(1:own) = r
  rho = product_of(r, r)
  do round = 1, rounds
    call MPI_Irecv(p(0), 1, MPI_DOUBLE_PRECISION, left, 1, line, requests(1), error)
    call MPI_Irecv(p(own+1), 1, MPI_DOUBLE_PRECISION, right, 2, line, requests(2), error)
    call MPI_Isend(p(1), 1, MPI_DOUBLE_PRECISION, left, 2, line, requests(3), error)
    call MPI_Isend(p(own), 1, MPI_DOUBLE_PRECISION, right, 1, line, requests(4), error)
    call MPI_Waitall(4, requests, MPI_STATUSES_IGNORE, error)
    do i = 1, own
      q(i) = 2 * p(i) - p(i-1) - p(i+1)
    end do
    before = rho
    rho = rho / product_of(p(1:own), q)
    x = x + rho * p(1:own)
    r = r - rho * q
    rho = product_of(r, r)
    if (rho < 1d-20) exit
    p(1:own) = r + rho / before * p(1:own)
  end do
  off = maxval(abs(x - 1))
  call MPI_Reduce(off, worst, 1, MPI_DOUBLE_PRECISION, MPI_MAX, 0, line, error)
  if (rank == 0) print '(a,i5,a,l2)', 'gradient: rounds', min(round, rounds), ' right', worst < 1d-6
  call MPI_Comm_free(line, error)
  call MPI_Finalize(error)
contains
  integer function all_ranks()
    call MPI_Comm_size(MPI_COMM_WORLD, all_ranks, error)
  end function

  double precision function product_of(a, b)
    double precision, intent(in) :: a(own), b(own)
    double precision :: part
    part = dot_product(a, b)
    call MPI_Allreduce(part, product_of, 1, MPI_DOUBLE_PRECISION, MPI_SUM, line, error)
  end function
end program
