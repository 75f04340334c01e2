//! Tables of delays and failures, and their errors.

use std::path::Path;

use belljar_fabric::LossStart;

use super::*;
use crate::plan::kinds;

fn plan(tables: &str) -> Result<DelayPlan, String> {
    let text = format!(
        "name = \"x\"\nimage = {{ recipe = \"r\" }}\nworkload = {{ command = \"\" }}\n\
         [nodes]\ncount = 3\nvcpus = 2\nmemory = \"1 GiB\"\nclock = \"2 GHz\"\n{tables}"
    );
    let scenario = Scenario::parse(Path::new("x.toml"), &text, &[]);
    let scenario = scenario.map_err(|error| error.to_string())?;
    let kinds = kinds::resolve(&scenario, Path::new(".")).map_err(|error| error.to_string())?;
    let plan = DelayPlan::resolve(&scenario, &kinds, Engine::Exact);
    plan.map_err(|error| error.to_string())
}

#[test]
fn tables_become_holds_detours_and_outages() {
    let plan = plan(
        "[[network.hold]]\nfrom = 1\nto = 0\nat = \"2 s\"\nfor = \"5 ms\"\n\
         [[nodes.detour]]\nnode = 1\nprocessor = 1\nat = \"1 s\"\nfor = \"1 ms\"\n\
         [[nodes.fail]]\nnode = 2\nat = \"3 s\"\n\
         [[nodes.fail]]\nnode = 0\nat = \"3 s\"\nkind = \"pause\"\nfor = \"1 s\"\n\
         [[nodes.fail]]\nnode = 1\nat = \"4 s\"\nkind = \"link\"\nfor = \"1 s\"\n\
         [[nodes.fail]]\nnode = 1\nat = \"5 s\"\nkind = \"kill\"\nrank = 6\n\
         [[nodes.fail]]\nnode = 1\nat = \"6 s\"\nkind = \"kill\"\n",
    );
    let plan = plan.unwrap();
    let second = 1_000_000_000_000;
    let at = |ps: u64| Time::from_ps(ps);
    let (from, to) = (1, 0);
    let held = Hold {
        from,
        to,
        at: at(2 * second),
        until: at(2 * second + second / 200),
    };
    assert_eq!(plan.holds, [held]);
    let absent = |node, processor, start, until| {
        (
            node,
            Absence {
                processor,
                at: start,
                until,
            },
        )
    };
    let wanted = [
        absent(1, 1, at(second), at(second + second / 1000)),
        absent(2, 0, at(3 * second), NEVER),
        absent(2, 1, at(3 * second), NEVER),
        absent(0, 0, at(3 * second), at(4 * second)),
        absent(0, 1, at(3 * second), at(4 * second)),
    ];
    assert_eq!(plan.absences, wanted);
    let down = |node, from, until| (node, Outage { from, until });
    let wanted = [
        down(2, at(3 * second), Time::MAX),
        down(1, at(4 * second), at(5 * second)),
    ];
    assert_eq!(plan.outages, wanted);
    let starts: Vec<u64> = plan
        .all
        .iter()
        .map(|delay| delay.at.as_ps() / second)
        .collect();
    assert_eq!(starts, [1, 2, 3, 3, 4, 5, 6]);
    let line = |after, words: &str| (1, (at(after * second), words.to_owned()));
    assert_eq!(plan.commands, [line(5, "kill 6"), line(6, "kill all")]);
    let kill = |after, rank| (1, (at(after * second), rank));
    assert_eq!(plan.kills, [kill(5, Some(6)), kill(6, None)]);
}

#[test]
fn losses_are_of_frames_from_a_time_or_a_number_on() {
    let lose = |start: &str| format!("[[network.lose]]\nfrom = 2\nto = 1\n{start}\n");
    let tables = lose("at = \"2 s\"") + &lose("frame = 7\nframes = 3");
    let found = plan(&tables).unwrap();
    let loss = |start, frames| FrameLoss {
        from: 2,
        to: 1,
        start,
        frames,
    };
    let at = Time::from_ps(2_000_000_000_000);
    let wanted = [loss(LossStart::At(at), 1), loss(LossStart::Frame(7), 3)];
    assert_eq!(found.losses, wanted);
    assert_eq!(found.end(), at);
    // A loss by number may concern frames from the beginning on.
    let starts: Vec<Time> = found.all.iter().map(|delay| delay.at).collect();
    assert_eq!(starts, [Time::ZERO, at]);
    for (start, words) in [
        ("", "network.lose.at is left out"),
        ("at = \"1 s\"\nframe = 1", "network.lose.frame is 1"),
        ("frame = 0", "network.lose.frame is 0"),
        ("frame = 1\nframes = 0", "network.lose.frames is 0"),
        ("at = \"9000000 s\"", "network.lose.at is"),
    ] {
        let error = plan(&lose(start)).unwrap_err();
        assert!(error.starts_with(words), "{error}");
    }
    let twice = plan(&(lose("frame = 1\nframes = 2") + &lose("frame = 1"))).unwrap_err();
    assert!(twice.starts_with("network.lose.frame is 1"), "{twice}");
    let among = plan(&(lose("frame = 40\nframes = 3") + &lose("frame = 42"))).unwrap_err();
    assert!(among.starts_with("network.lose.frame is 42"), "{among}");
    assert!(plan(&(lose("frame = 40\nframes = 3") + &lose("frame = 43"))).is_ok());
    let to_itself = lose("frame = 1").replace("to = 1", "to = 2");
    let error = plan(&to_itself).unwrap_err();
    assert!(error.starts_with("network.lose.to is 2"), "{error}");
}

#[test]
fn tables_that_cannot_be_are_refused_by_the_key() {
    let hold = |from: u32, to: u32, at: &str, length: &str| {
        format!("[[network.hold]]\nfrom = {from}\nto = {to}\nat = \"{at}\"\nfor = \"{length}\"\n")
    };
    let detour = "[[nodes.detour]]\nnode = 0\nat = \"1 s\"\nfor = \"1 ms\"\n";
    for (tables, key) in [
        (hold(3, 0, "1 s", "1 ms"), "network.hold.from is 3"),
        (hold(1, 7, "1 s", "1 ms"), "network.hold.to is 7"),
        (hold(1, 1, "1 s", "1 ms"), "network.hold.to is 1"),
        (hold(1, 0, "1 s", "0 ms"), "network.hold.for is"),
        (hold(1, 0, "9000000 s", "1 ms"), "network.hold.at is"),
        (
            hold(1, 0, "1 s", "2 ms") + &hold(1, 0, "1001 ms", "2 ms"),
            "network.hold.at is",
        ),
        (
            detour.replace("node = 0", "node = 3"),
            "nodes.detour.node is 3",
        ),
        (
            detour.replace("at =", "processor = 2\nat ="),
            "nodes.detour.processor is 2",
        ),
        (detour.repeat(2), "nodes.detour.at or nodes.fail.at is"),
        (
            "[[nodes.fail]]\nnode = 3\nat = \"1 s\"\n".to_owned(),
            "nodes.fail.node is 3",
        ),
        (
            "[[nodes.fail]]\nnode = 0\nat = \"1 s\"\nfor = \"1 s\"\n".to_owned(),
            "nodes.fail.for is",
        ),
        (
            "[[nodes.fail]]\nnode = 0\nat = \"1 s\"\nkind = \"pause\"\n".to_owned(),
            "nodes.fail.for is left",
        ),
        (
            "[[nodes.fail]]\nnode = 0\nat = \"1 s\"\nkind = \"kill\"\nfor = \"1 s\"\n".to_owned(),
            "nodes.fail.for is 1",
        ),
        (
            "[[nodes.fail]]\nnode = 0\nat = \"1 s\"\nrank = 1\n".to_owned(),
            "nodes.fail.rank is 1",
        ),
    ] {
        let error = plan(&tables).unwrap_err();
        assert!(error.starts_with(key), "{tables}: {error}");
    }
    let error = plan(&hold(1, 0, "-1 s", "1 ms")).unwrap_err();
    assert!(error.contains("-1 s"), "{error}");
    assert!(plan(&(hold(1, 0, "1 s", "1 ms") + &hold(1, 0, "1001 ms", "2 ms"))).is_ok());
}

#[test]
fn a_restart_is_an_absence_for_good_of_one_node_and_the_begin_of_the_next() {
    let restart = |at: &str, length: &str| {
        format!("[[nodes.fail]]\nnode = 1\nat = \"{at}\"\nkind = \"restart\"\nfor = \"{length}\"\n")
    };
    let pause = "[[nodes.fail]]\nnode = 1\nat = \"7 s\"\nkind = \"pause\"\nfor = \"1 s\"\n";
    let found = plan(&(restart("5 s", "1 s") + pause + &restart("2 s", "1 s"))).unwrap();
    let at = |seconds: u64| Time::from_ps(seconds * 1_000_000_000_000);
    let loss = |from, to| PowerLoss {
        at: at(from),
        until: at(to),
    };
    assert_eq!(found.restarts, [(1, loss(5, 6)), (1, loss(2, 3))]);
    assert_eq!(found.outages.len(), 2);
    assert_eq!(found.end(), at(8));
    let own: Vec<Absence> = found.absences.iter().map(|(_, own)| *own).collect();
    let losses = [loss(2, 3), loss(5, 6)];
    let after = |restarted| {
        let absences = failures::absences_after(&own, &losses, restarted);
        let first = absences.iter().filter(|absence| absence.processor == 0);
        let mut times: Vec<(Time, Time)> = first.map(|it| (it.at, it.until)).collect();
        times.sort_unstable();
        times
    };
    assert_eq!(after(0), [(at(2), NEVER)]);
    assert_eq!(after(1), [(Time::ZERO, at(3)), (at(5), NEVER)]);
    assert_eq!(after(2), [(Time::ZERO, at(6)), (at(7), at(8))]);
    let refused = |tables: &str, words: &str| {
        let error = plan(tables).unwrap_err();
        assert!(error.contains(words), "{error}");
    };
    let without = restart("2 s", "1 s").replace("for = \"1 s\"\n", "");
    refused(&without, "nodes.fail.for is left out");
    let head = restart("2 s", "1 s").replace("node = 1", "node = 0");
    refused(&head, "of another node than 0");
    let twice = restart("2 s", "1 s") + &restart("2500 ms", "1 s");
    refused(&twice, "after the end of the detour or failure");
    refused(
        &format!("boot = \"each\"\n{}", restart("2 s", "1 s")),
        "nodes.boot",
    );
}
