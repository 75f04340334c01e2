//! Command lines of `mpirun`, host files and networks, as people write them.
use super::*;

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn read(text: &str, ranks: Option<u32>) -> Result<Vec<ProgramRequest>, RequestError> {
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
    assert_eq!(parts[1].environment, ["A=1"]);
    assert_eq!(parts[1].shared, ["B=2"]);
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
    let option = RequestError::Option("--bind".into());
    assert_eq!(read("./a : --bind core ./b", None), Err(option));
    let late = RequestError::Late("-hostfile".into());
    assert_eq!(read("./a : -hostfile h ./b", None), Err(late));
    let refused = read("./a : --timeout 3 ./b", None).unwrap_err().to_string();
    assert_eq!(
        refused,
        "--timeout has no counterpart on nodes: write --limit TIME, a limit of virtual time"
    );
}

#[test]
fn options_of_a_program_stay_with_it() {
    let text = "./a : -n 2 -env A 1 -env B=2 -genv C 3 -x D --mca btl tcp --bind-to core -wdir out ./b -env X";
    let part = &read(text, Some(1)).unwrap()[1];
    assert_eq!(part.environment, ["A=1", "B=2", "D", "OMPI_MCA_btl=tcp"]);
    assert_eq!(part.shared, ["C=3"]);
    assert_eq!(part.folder.as_deref(), Some("out"));
    assert_eq!(part.ignored.len(), 1);
    assert!(part.ignored[0].starts_with("--bind-to core changes nothing: "));
    assert_eq!(part.arguments, ["-env", "X"]);
}

fn of(nodes: Option<u32>, ranks_per_node: Option<u32>) -> Wishes {
    Wishes {
        nodes,
        ranks_per_node,
        ..Wishes::default()
    }
}

/// Nodes, ranks of a node at most, and ranks of each program.
fn laid(parts: &[ProgramRequest], wishes: &Wishes) -> Result<(u32, u32, Vec<u32>), RequestError> {
    let (layout, ranks) = layout(parts, wishes)?;
    Ok((layout.nodes, layout.ranks_per_node, ranks))
}

fn alone(ranks: Option<u32>) -> Vec<ProgramRequest> {
    read("./a", ranks).unwrap()
}

#[test]
fn nodes_follow_from_ranks_and_ranks_from_slots() {
    assert_eq!(laid(&alone(Some(8)), &of(None, None)), Ok((8, 1, vec![8])));
    assert_eq!(
        laid(&alone(Some(7)), &of(None, Some(4))),
        Ok((2, 4, vec![7]))
    );
    assert_eq!(
        laid(&alone(None), &of(Some(3), Some(2))),
        Ok((3, 2, vec![6]))
    );
    assert_eq!(
        laid(&alone(Some(1)), &of(Some(3), None)),
        Ok((3, 1, vec![1]))
    );
    assert_eq!(
        laid(&alone(None), &of(None, None)),
        Err(RequestError::HowMany)
    );
    let several = read("./a : -n 3 ./b", Some(1)).unwrap();
    assert_eq!(laid(&several, &of(None, Some(2))), Ok((2, 2, vec![1, 3])));
    let error = laid(&alone(Some(5)), &of(Some(2), None))
        .unwrap_err()
        .to_string();
    assert!(error.contains("--ranks-per-node 3, --nodes 5"), "{error}");
}

#[test]
fn slots_of_hosts_are_those_of_nodes() {
    let hosts = |text: &str| Wishes {
        hosts: Some(host_file::host_file(text).unwrap()),
        ..Wishes::default()
    };
    assert_eq!(
        laid(&alone(None), &hosts("a slots=2\nb:2\n")),
        Ok((2, 2, vec![4]))
    );
    assert_eq!(
        laid(&alone(Some(4)), &hosts("a\na\nb\nb\n")),
        Ok((2, 2, vec![4]))
    );
    let (uneven, ranks) = layout(&alone(None), &hosts("a:2\nb\nc\n")).unwrap();
    assert_eq!((uneven.groups(), ranks), (vec![(1, 2), (2, 1)], vec![4]));
    let mut crowded = hosts("a\nb\n");
    let error = laid(&alone(Some(5)), &crowded).unwrap_err().to_string();
    assert!(
        error.contains("5 ranks are more than the 2 slots of 2 nodes"),
        "{error}"
    );
    crowded.mapping.oversubscribe = true;
    let (crowded, _) = layout(&alone(Some(5)), &crowded).unwrap();
    assert_eq!((crowded.uneven, crowded.processors), (vec![3, 2], Some(1)));
}

#[test]
fn rankfiles_choose_nodes() {
    let list = |names: &[&str]| Wishes {
        rank_hosts: Some(names.iter().map(|&name| name.to_owned()).collect()),
        ..Wishes::default()
    };
    let (layout_of, ranks) = layout(&alone(None), &list(&["b", "a", "b"])).unwrap();
    assert_eq!((layout_of.uneven, ranks), (vec![2, 1], vec![3]));
    assert_eq!(layout_of.placement, Placement::Cyclic);
    let mut known = list(&["b", "+n0"]);
    known.hosts = Some(host_file::host_file("a\nb\n").unwrap());
    let (layout_of, _) = layout(&alone(Some(2)), &known).unwrap();
    assert_eq!(layout_of.placement, Placement::Listed(vec![1, 0]));
    let error = layout(&alone(Some(3)), &known).unwrap_err();
    assert_eq!(error, RequestError::RankCount { ranks: 3, named: 2 });
    let mut longer = list(&["a", "b", "b"]);
    longer.mapping.sequential = true;
    let (layout_of, _) = layout(&alone(Some(2)), &longer).unwrap();
    assert_eq!((layout_of.nodes, layout_of.ranks_per_node), (2, 1));
    for absent in ["c", "+n2", "+n99999999999"] {
        known.rank_hosts = Some(vec![absent.to_owned()]);
        let error = layout(&alone(None), &known).unwrap_err();
        assert!(
            matches!(error, RequestError::NoHost { rank: 0, .. }),
            "{absent}"
        );
    }
    let several = read("./a : -n 1 ./b", Some(1)).unwrap();
    let error = layout(&several, &list(&["b", "a"]));
    assert_eq!(error.unwrap().0.placement, Placement::Slots);
    let cyclic = Wishes {
        mapping: RankMapping {
            map: placement::RankOrder::ByNode,
            ..RankMapping::default()
        },
        ranks_per_node: Some(2),
        ..Wishes::default()
    };
    let several = read("./a : -n 2 ./b", Some(2)).unwrap();
    assert_eq!(layout(&several, &cyclic), Err(RequestError::OneProgram));
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
