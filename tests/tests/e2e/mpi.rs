//! Real MPI programs across nodes.

use belljar_tests::{Dir, Scenario};

#[test]
fn ranks_meet_across_nodes() {
    let Some(dir) = Dir::new() else { return };
    let console = dir
        .run(&Scenario::new(3, "mpiexec.hydra -n 3 hello"), "out", &[])
        .success()
        .console(0);
    for rank in 0..3 {
        assert!(
            console.contains(&format!("hello from rank {rank} of 3 on node{rank}")),
            "{console}"
        );
    }
}

fn hpl(nodes: u32, grid: (u32, u32)) {
    let Some(dir) = Dir::new() else { return };
    let data =
        std::fs::read_to_string(belljar_tests::root().join("scenarios/hpl/HPL.dat")).unwrap();
    let data = data
        .replace("1000         Ns", "300          Ns")
        .replace("2            Ps", &format!("{}            Ps", grid.0))
        .replace("2            Qs", &format!("{}            Qs", grid.1));
    let scenario = Scenario::new(nodes, &format!("mpiexec.hydra -n {nodes} xhpl")).with(&format!(
        "[workload.files]\n\"HPL.dat\" = {{ text = {data:?} }}"
    ));
    let run = dir.run(&scenario, "out", &[]).success();
    let console = run.console(0);
    assert!(
        console.contains("1 tests completed and passed residual checks"),
        "{console}"
    );
    assert!(console.contains("PASSED"), "{console}");
    if nodes == 4 {
        dir.holds("hpl-4", &run, "bookworm-mpich");
    }
}

#[test]
fn linpack_is_right_on_one_node() {
    hpl(1, (1, 1));
}

#[test]
fn linpack_is_right_on_two_nodes() {
    hpl(2, (1, 2));
}

#[test]
fn linpack_is_right_on_four_nodes() {
    hpl(4, (2, 2));
}

/// NetPIPE's figures: bytes, bandwidth in Mb/s, time in microseconds.
fn netpipe(dir: &Dir, out: &str, network: &str) -> Vec<(u64, f64, f64)> {
    let command =
        "mpiexec.hydra -n 2 NPmpich2 -n 5 -l 1 -u 131072 -p 0 -o np.out >/dev/null; cat np.out";
    let console = dir
        .run(&Scenario::new(2, command).with(network), out, &[])
        .success()
        .console(0);
    let figures = console.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let bytes = words.next()?.parse().ok()?;
        let rate = words.next()?.parse().ok()?;
        let seconds: f64 = words.next()?.parse().ok()?;
        words
            .next()
            .is_none()
            .then_some((bytes, rate, seconds * 1e6))
    });
    let figures: Vec<_> = figures.collect();
    assert!(figures.len() > 10, "{console}");
    figures
}

#[test]
fn netpipe_sees_the_links() {
    let Some(dir) = Dir::new() else { return };
    let network = |latency: &str, bandwidth: &str| {
        format!(
            "[network]\nlatency = \"{latency}\"\nbandwidth = \"{bandwidth}\"\nswitch-latency = \"300 ns\""
        )
    };
    let near = netpipe(&dir, "near", &network("1 us", "10 Gb/s"));
    let far = netpipe(&dir, "far", &network("101 us", "10 Gb/s"));
    let slow = netpipe(&dir, "slow", &network("1 us", "100 Mb/s"));
    // A small message crosses two links: 200 us more.
    let difference = far[0].2 - near[0].2;
    assert!(
        (195.0..215.0).contains(&difference),
        "{:?} {:?}",
        near[0],
        far[0]
    );
    // A large message is limited by the link: 100 Mb/s minus headers.
    let (_, rate, _) = slow.last().unwrap();
    assert!((75.0..100.0).contains(rate), "{slow:?}");
}
