//! Tables of delays and failures, and their errors.

use std::path::Path;

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
