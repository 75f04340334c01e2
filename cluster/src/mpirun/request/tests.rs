//! Command lines of `mpirun`, host files and networks, as people write them.
use super::*;

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn read(text: &str, ranks: Option<u32>) -> Result<Vec<Part>, RequestError> {
    parts(&words(text), ranks)
}

#[test]
fn programs_stand_between_colons() {
    let parts = read("./a -x 1 : -np 3 -x A=1 -genv B 2 ./b : -n 2 c", Some(1)).unwrap();
    let programs: Vec<_> = parts
        .iter()
        .map(|part| (part.ranks, &*part.program))
        .collect();
    assert_eq!(
        programs,
        [(Some(1), "./a"), (Some(3), "./b"), (Some(2), "c")]
    );
    assert_eq!(parts[0].arguments, ["-x", "1"]);
    assert_eq!(parts[1].environment, ["A=1", "B=2"]);
}

#[test]
fn what_is_no_program_is_told() {
    assert_eq!(
        read("./a : -n 3", None),
        Err(RequestError::NoProgram("-n".into()))
    );
    assert_eq!(
        read("./a :", None),
        Err(RequestError::NoProgram(":".into()))
    );
    assert_eq!(
        read("./a : -n x ./b", None),
        Err(RequestError::Ranks("x".into()))
    );
    assert_eq!(
        read("./a : -n 0 ./b", None),
        Err(RequestError::Ranks("0".into()))
    );
    let option = RequestError::Option("--bind-to".into());
    assert_eq!(read("./a : --bind-to core ./b", None), Err(option));
}

#[test]
fn nodes_follow_from_ranks_and_ranks_from_slots() {
    let alone = |ranks| read("./a", ranks).unwrap();
    let of = |nodes, ranks_per_node| Wishes {
        nodes,
        ranks_per_node,
        host_file: None,
    };
    let laid = |parts: &[Part], wishes| {
        let (layout, ranks) = layout(parts, wishes)?;
        Ok::<_, RequestError>((layout.nodes, layout.ranks_per_node, ranks))
    };
    assert_eq!(laid(&alone(Some(8)), of(None, None)), Ok((8, 1, vec![8])));
    assert_eq!(
        laid(&alone(Some(7)), of(None, Some(4))),
        Ok((2, 4, vec![7]))
    );
    assert_eq!(
        laid(&alone(None), of(Some(3), Some(2))),
        Ok((3, 2, vec![6]))
    );
    assert_eq!(
        laid(&alone(Some(1)), of(Some(3), None)),
        Ok((3, 1, vec![1]))
    );
    assert_eq!(
        laid(&alone(None), of(None, None)),
        Err(RequestError::HowMany)
    );
    let several = read("./a : -n 3 ./b", Some(1)).unwrap();
    assert_eq!(laid(&several, of(None, Some(2))), Ok((2, 2, vec![1, 3])));
    let error = laid(&alone(Some(5)), of(Some(2), None))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("--ranks-per-node 3, or --nodes 5"),
        "{error}"
    );
    let from_file = Wishes {
        host_file: Some(host_file("a slots=2\nb:2\n").unwrap()),
        ..Wishes::default()
    };
    assert_eq!(laid(&alone(None), from_file), Ok((2, 2, vec![4])));
}

#[test]
fn host_files_of_both_implementations_are_read() {
    let of = |text| host_file(text).map(|layout| (layout.nodes, layout.ranks_per_node));
    assert_eq!(of("# mine\na\nb # second\n\nc\n"), Ok((3, 1)));
    assert_eq!(of("a:4\nb:4\n"), Ok((2, 4)));
    assert_eq!(of("a slots=4 max_slots=8\nb slots=4\n"), Ok((2, 4)));
    assert_eq!(
        of("a:1\nb:2\n"),
        Err(RequestError::Uneven { one: 1, other: 2 })
    );
    assert_eq!(of("\n# none\n"), Err(RequestError::NoHosts));
    for wrong in ["a:x", ":2", "a slots", "a slots=0", "a b"] {
        assert!(
            matches!(of(wrong), Err(RequestError::HostFile { line: 1, .. })),
            "{wrong}"
        );
    }
}

#[test]
fn networks_are_bandwidth_and_latency() {
    let (bandwidth, latency) = network("100Gb/s,1us").unwrap();
    assert_eq!(bandwidth.unwrap().0, 100_000_000_000);
    assert_eq!(latency.unwrap().0.as_ps(), 1_000_000);
    assert!(matches!(network("2 us"), Ok((None, Some(_)))));
    for wrong in ["", "fast", "10 Gb/s,,", "1 GiB"] {
        let error = network(wrong).unwrap_err().to_string();
        assert!(error.contains("100Gb/s,1us"), "{error}");
    }
}
