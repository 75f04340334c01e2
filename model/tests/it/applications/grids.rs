//! Communication of programs whose processes are a grid, by their published descriptions.

use belljar_trace::Event;

use super::process::Process;

/// Returns the part of `total` for the process at `at` of `parts`: the first ones have one more if the division is uneven.
pub(crate) fn share(total: u32, parts: u32, at: u32) -> u64 {
    u64::from(total / parts + u32::from(at < total % parts))
}

/// NPB's LU: wavefronts over a grid of columns of ranks, faces in both directions, for a cube of `points` a side.
fn lu_of(points: u32, rank: u32, ranks: u32, sites: bool) -> Vec<Event> {
    let mut own = Process::new(sites);
    let wide = ranks.ilog2().div_ceil(2);
    let (rows, columns) = (1 << wide, ranks >> wide);
    let (row, column) = (rank % rows, rank / rows);
    let north = (row > 0).then(|| rank - 1);
    let south = (row + 1 < rows).then(|| rank + 1);
    let west = (column > 0).then(|| rank - rows);
    let east = (column + 1 < columns).then(|| rank + rows);
    let (nx, ny) = (share(points, rows, row), share(points, columns, column));
    own.bcast(1, 0, 9);
    own.barrier(2);
    for _ in 0..3 {
        for (site, from, to) in [
            (10, [north, west], [south, east]),
            (20, [south, east], [north, west]),
        ] {
            for _ in 1..6 {
                for (at, (peer, length)) in from.into_iter().zip([ny, nx]).enumerate() {
                    if peer.is_some() {
                        own.receive(site + at as u32, peer, 1 + at as i32, 5 * length);
                    }
                }
                for (at, (peer, length)) in to.into_iter().zip([ny, nx]).enumerate() {
                    if peer.is_some() {
                        own.send(site + 2 + at as u32, peer, 1 + at as i32, 5 * length);
                    }
                }
            }
        }
        for (site, [low, high], length) in [(30, [north, south], ny), (40, [west, east], nx)] {
            for (at, (from, to)) in [(low, high), (high, low)].into_iter().enumerate() {
                let site = site + 3 * at as u32;
                if from.is_some() {
                    own.irecv(site, from, site as i32, 10 * length * u64::from(points));
                }
                if to.is_some() {
                    own.send(site + 1, to, site as i32, 10 * length * u64::from(points));
                }
                if from.is_some() {
                    own.wait(site + 2);
                }
            }
        }
        own.allreduce(50, 5);
    }
    own.done()
}

/// LU of 64 points a side.
pub(crate) fn lu(rank: u32, ranks: u32, sites: bool) -> Vec<Event> {
    lu_of(64, rank, ranks, sites)
}

/// LU of 33 points a side, which no grid divides evenly.
pub(crate) fn lu_uneven(rank: u32, ranks: u32, sites: bool) -> Vec<Event> {
    lu_of(33, rank, ranks, sites)
}

/// NPB's BT and SP: multi-partition over a square grid, with faces to six neighbours and a pipeline through the cells of each.
fn multipartition(points: u32, sweeps: bool, rank: u32, ranks: u32, sites: bool) -> Vec<Event> {
    let mut own = Process::new(sites);
    let side = ranks.isqrt();
    let (i, j) = (rank % side, rank / side);
    let at = |di: u32, dj: u32| Some((i + di) % side + side * ((j + dj) % side));
    let (on, back) = (1, side - 1);
    let successors = [at(on, 0), at(0, on), at(back, on)];
    let predecessors = [at(back, 0), at(0, back), at(on, back)];
    let cell = u64::from(points / side);
    let face = 10 * u64::from(side - 1) * cell * cell;
    own.bcast(1, 0, 3);
    for _ in 0..4 {
        for axis in 0..3 {
            own.irecv(
                10 + 2 * axis,
                successors[axis as usize],
                100 + 2 * axis as i32,
                face,
            );
            own.irecv(
                11 + 2 * axis,
                predecessors[axis as usize],
                101 + 2 * axis as i32,
                face,
            );
        }
        for axis in 0..3 {
            own.isend(
                20 + 2 * axis,
                predecessors[axis as usize],
                100 + 2 * axis as i32,
                face,
            );
            own.isend(
                21 + 2 * axis,
                successors[axis as usize],
                101 + 2 * axis as i32,
                face,
            );
        }
        own.waitall(30);
        let block = (cell + 1) * (cell + 1) * if sweeps { 22 } else { 30 };
        for axis in 0..3_u32 {
            let (next, last) = (successors[axis as usize], predecessors[axis as usize]);
            for stage in 0..side {
                if stage > 0 {
                    own.irecv(40 + 10 * axis, last, 200 + axis as i32, block);
                    if sweeps {
                        own.wait(41 + 10 * axis);
                        own.wait(42 + 10 * axis);
                    } else {
                        own.waitall(41 + 10 * axis);
                    }
                }
                if stage + 1 < side {
                    own.isend(43 + 10 * axis, next, 200 + axis as i32, block);
                    if !sweeps {
                        own.wait(44 + 10 * axis);
                    }
                }
            }
            for stage in 0..side {
                if stage > 0 {
                    own.irecv(45 + 10 * axis, next, 300 + axis as i32, cell * cell * 5);
                    own.waitall(46 + 10 * axis);
                }
                if stage + 1 < side {
                    own.isend(47 + 10 * axis, last, 300 + axis as i32, cell * cell * 5);
                    own.wait(48 + 10 * axis);
                }
            }
        }
    }
    own.allreduce(90, 5);
    own.done()
}

/// BT of 720 points a side.
pub(crate) fn bt(rank: u32, ranks: u32, sites: bool) -> Vec<Event> {
    multipartition(720, false, rank, ranks, sites)
}

/// SP of 720 points a side, whose pipeline waits for both of its requests one by one.
pub(crate) fn sp(rank: u32, ranks: u32, sites: bool) -> Vec<Event> {
    multipartition(720, true, rank, ranks, sites)
}

/// LULESH: a cube of domains of 10 elements a side, with faces, edges and corners, where they exist.
pub(crate) fn lulesh(rank: u32, ranks: u32, sites: bool) -> Vec<Event> {
    let mut own = Process::new(sites);
    let side = (1..=ranks).find(|it| it.pow(3) >= ranks).unwrap_or(1);
    let at = [1, side, side * side].map(|step| rank / step % side);
    let moved = |by: [i32; 3]| {
        let to = [0, 1, 2].map(|axis| at[axis] as i32 + by[axis]);
        let within = to.iter().all(|to| (0..side as i32).contains(to));
        within.then(|| (to[0] + side as i32 * (to[1] + side as i32 * to[2])) as u32)
    };
    let all: Vec<[i32; 3]> = (0..27)
        .filter(|it| *it != 13)
        .map(|it: i32| [it % 3 - 1, it / 3 % 3 - 1, it / 9 - 1])
        .collect();
    let length = |by: &[i32; 3]| match by.iter().filter(|it| **it != 0).count() {
        1 => 3 * 11 * 11,
        2 => 3 * 11,
        _ => 3,
    };
    // Faces first, then edges, then corners, as in LULESH.
    let mut all = all;
    all.sort_by_key(|by| by.iter().filter(|it| **it != 0).count());
    own.allreduce(1, 1);
    for _ in 0..3 {
        for (number, by) in (0..).zip(&all) {
            let back = by.map(|it| -it);
            if let Some(from) = moved(back) {
                own.irecv(10 + number, Some(from), 1024, length(by));
            }
        }
        for (number, by) in (0..).zip(&all) {
            if let Some(to) = moved(*by) {
                own.isend(40 + number, Some(to), 1024, length(by));
            }
        }
        own.waitall(80);
        own.allreduce(81, 1);
    }
    own.done()
}

/// Sweep3D: wavefronts from eight octants over a grid of two dimensions, in blocks of planes and angles.
pub(crate) fn sweep3d(rank: u32, ranks: u32, sites: bool) -> Vec<Event> {
    let mut own = Process::new(sites);
    let wide = ranks.ilog2().div_ceil(2);
    let (width, height) = (1 << wide, ranks >> wide);
    let (x, y) = (rank % width, rank / width);
    let along_x = |on: bool| match on {
        true => (x + 1 < width).then(|| rank + 1),
        false => (x > 0).then(|| rank - 1),
    };
    let along_y = |on: bool| match on {
        true => (y + 1 < height).then(|| rank + width),
        false => (y > 0).then(|| rank - width),
    };
    for _ in 0..2 {
        for octant in 0..8 {
            let (right, up) = (octant & 1 != 0, octant & 2 != 0);
            for _ in 0..5 {
                for (site, from, tag) in [(10, along_x(!right), 1000), (11, along_y(!up), 2000)] {
                    if from.is_some() {
                        own.receive(site, from, tag, 300);
                    }
                }
                for (site, to, tag) in [(12, along_x(right), 1000), (13, along_y(up), 2000)] {
                    if to.is_some() {
                        own.send(site, to, tag, 300);
                    }
                }
            }
        }
        own.allreduce(20, 1);
    }
    own.done()
}
