//! Communication of programs whose partners follow from bits and halves, and of a master with workers.

use belljar_trace::Event;

use super::process::Process;

/// NPB's CG with 1 400 rows per rank of the smallest grid: sums by halves along a row, and exchanges with the other side of the
/// diagonal.
pub(crate) fn cg(rank: u32, ranks: u32, sites: bool) -> Vec<Event> {
    let mut own = Process::new(sites);
    let rows = 1 << (ranks.ilog2() / 2);
    let columns = ranks / rows;
    let (row, column) = (rank / columns, rank % columns);
    let mut partners = Vec::new();
    let mut width = columns;
    while width > 1 {
        partners.push(row * columns + (column + width / 2) % width + column / width * width);
        width /= 2;
    }
    let across = match rows == columns {
        true => rank % rows * rows + rank / rows,
        false => 2 * (rank / 2 % rows * rows + rank / 2 / rows) + rank % 2,
    };
    let length = u64::from(14336 / columns);
    let exchange = |own: &mut Process, site: u32, with: u32, count: u64| {
        own.irecv(site, Some(with), 1, count);
        own.send(site + 1, Some(with), 1, count);
        own.wait(site + 2);
    };
    let multiply = |own: &mut Process, site: u32| {
        for with in partners.iter().rev() {
            exchange(own, site, *with, length);
        }
        exchange(own, site + 3, across, length);
    };
    let sum = |own: &mut Process, site: u32, count: u64| {
        for with in &partners {
            exchange(own, site, *with, count);
        }
    };
    own.barrier(1);
    for _ in 0..3 {
        sum(&mut own, 10, 1);
        for _ in 0..6 {
            multiply(&mut own, 20);
            sum(&mut own, 30, 1);
            sum(&mut own, 40, 1);
        }
        multiply(&mut own, 50);
        sum(&mut own, 60, 1);
        sum(&mut own, 70, 2);
    }
    own.barrier(2);
    own.done()
}

/// NPB's MG: a torus of three dimensions, faces of each level of a grid of 256 points a side, down to 64 points.
pub(crate) fn mg(rank: u32, ranks: u32, sites: bool) -> Vec<Event> {
    let mut own = Process::new(sites);
    // The dimensions take the factors of two in turn.
    let log = ranks.ilog2();
    let lengths = [0, 1, 2].map(|axis| 1 << ((log + 2 - axis) / 3));
    let at = [
        rank % lengths[0],
        rank / lengths[0] % lengths[1],
        rank / lengths[0] / lengths[1],
    ];
    let moved = |axis: usize, by: u32| {
        let mut to = at;
        to[axis] = (to[axis] + by) % lengths[axis];
        Some(to[0] + lengths[0] * (to[1] + lengths[1] * to[2]))
    };
    let faces = |own: &mut Process, site: u32, points: u32| {
        let own_points = lengths.map(|length| u64::from(points / length));
        let [x, y, z] = own_points;
        let areas = [y * z, (x + 2) * z, (x + 2) * (y + 2)];
        for axis in 0..3 {
            if lengths[axis] == 1 {
                continue;
            }
            let site = site + 8 * axis as u32;
            let (on, back) = (moved(axis, 1), moved(axis, lengths[axis] - 1));
            own.irecv(site, back, 10 + axis as i32, areas[axis]);
            own.irecv(site + 1, on, 20 + axis as i32, areas[axis]);
            own.send(site + 2, on, 10 + axis as i32, areas[axis]);
            own.send(site + 3, back, 20 + axis as i32, areas[axis]);
            own.wait(site + 4);
            own.wait(site + 5);
        }
    };
    own.bcast(1, 0, 4);
    for _ in 0..2 {
        for level in (6..=8).rev() {
            faces(&mut own, 100, 1 << level);
        }
        for level in 7..=8 {
            faces(&mut own, 200, 1 << level);
            faces(&mut own, 300, 1 << level);
        }
        own.allreduce(2, 1);
    }
    own.done()
}

/// NPB's FT: transposes of 2^21 points, and a sum for the first rank.
pub(crate) fn ft(_rank: u32, ranks: u32, sites: bool) -> Vec<Event> {
    let mut own = Process::new(sites);
    let operation = belljar_mpi::Operation::Alltoall;
    for _ in 0..6 {
        let each = u64::from((1 << 21) / ranks / ranks);
        own.collective(1, "MPI_Alltoall", operation, None, each);
        own.collective(2, "MPI_Reduce", belljar_mpi::Operation::Reduce, Some(0), 2);
    }
    own.done()
}

/// A master that hands out 240 pieces of work with wildcard receives.
pub(crate) fn master(rank: u32, ranks: u32, sites: bool) -> Vec<Event> {
    let mut own = Process::new(sites);
    let workers = ranks - 1;
    let pieces = 240;
    // Workers differ in speed: a later one takes fewer, in an irregular order.
    let taken = |piece: u32| 1 + (piece * piece * 7 + piece * 3 + piece / 5) % workers;
    if rank == 0 {
        for worker in 1..ranks {
            own.send(1, Some(worker), 1, 100);
        }
        for piece in 0..pieces {
            let from = taken(piece);
            own.receive_any(2, from, 2, 10);
            own.send(3, Some(from), 1, 100);
        }
        for worker in 1..ranks {
            own.receive_any(4, worker, 2, 10);
        }
        for worker in 1..ranks {
            own.send(5, Some(worker), 3, 0);
        }
    } else {
        let rounds = 1 + (0..pieces).filter(|piece| taken(*piece) == rank).count();
        for _ in 0..rounds {
            own.receive(6, Some(0), 1, 100);
            own.send(7, Some(0), 2, 10);
        }
        own.receive(8, Some(0), 3, 0);
    }
    own.done()
}
