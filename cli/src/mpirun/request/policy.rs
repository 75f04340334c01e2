//! Values of `--map-by` and `--rank-by`, as Open MPI 4 and 5 have them.
//!
//! Parts of a node are equal, so most policies mean the order of slots. Called by `belljar mpirun`.

use super::RequestError;
use super::placement::{RankMapping, RankOrder};

/// Reads the value of `--map-by` into `mapping`.
///
/// # Errors
/// When the policy or a modifier is unknown.
pub fn map_by(text: &str, mapping: &mut RankMapping) -> Result<(), RequestError> {
    let refused = |instead: &str| RequestError::MapBy {
        text: text.to_owned(),
        instead: instead.to_owned(),
    };
    let mut words = text.split(':');
    let policy = words.next().unwrap_or("").to_ascii_lowercase();
    let mut rest: Vec<&str> = words.collect();
    match policy.as_str() {
        // A node has one package with equal parts.
        "slot" | "core" | "hwthread" | "socket" | "package" | "numa" | "l1cache" | "l2cache"
        | "l3cache" | "board" | "user" | "none" | "" => {}
        "node" => mapping.map = RankOrder::ByNode,
        "seq" => mapping.sequential = true,
        "rankfile" => {}
        "ppr" => {
            let mut take = || (!rest.is_empty()).then(|| rest.remove(0));
            let count = take().and_then(|count| count.parse().ok());
            let unit = take().unwrap_or("").to_ascii_lowercase();
            let units = ["node", "socket", "package", "numa", "board", "l3cache"];
            let count = count.filter(|&count: &u32| count > 0 && units.contains(&unit.as_str()));
            let instead = "write ppr:K:node, or --ranks-per-node K and --vcpus N";
            mapping.per_node = Some(count.ok_or_else(|| refused(instead))?);
        }
        _ => {
            return Err(refused(
                "write slot, node, seq, ppr:K:node or rankfile:file=PATH",
            ));
        }
    }
    for word in rest {
        modifier(word, &policy, mapping).ok_or_else(|| {
            refused(
                "of modifiers PE=K, SPAN, OVERSUBSCRIBE, NOOVERSUBSCRIBE and file=PATH are known",
            )
        })?;
    }
    match policy == "rankfile" && mapping.rank_file.is_none() {
        true => Err(refused("write rankfile:file=PATH, or --rankfile PATH")),
        false => Ok(()),
    }
}

fn modifier(word: &str, policy: &str, mapping: &mut RankMapping) -> Option<()> {
    let (key, value) = word.split_once('=').unwrap_or((word, ""));
    match (key.to_ascii_lowercase().as_str(), value) {
        ("pe", value) => mapping.processors = Some(value.parse().ok().filter(|&each| each > 0)?),
        // Over all packages: one of each node in turn.
        ("span", "") if !matches!(policy, "slot" | "ppr") => mapping.map = RankOrder::ByNode,
        ("span", "") => {}
        ("oversubscribe", "") => mapping.oversubscribe = true,
        ("file", path) if policy == "rankfile" && !path.is_empty() => {
            mapping.rank_file = Some(path.to_owned());
        }
        // Always true on nodes.
        ("nooversubscribe" | "hwtcpus" | "corecpus" | "inherit" | "noinherit", "") => {}
        _ => return None,
    }
    Some(())
}

/// Reads the value of `--rank-by`.
///
/// # Errors
/// If it is unknown.
pub fn rank_by(text: &str) -> Result<RankOrder, RequestError> {
    match text.to_ascii_lowercase().as_str() {
        "slot" | "fill" | "core" | "hwthread" | "socket" | "package" | "numa" | "l1cache"
        | "l2cache" | "l3cache" | "board" => Ok(RankOrder::BySlot),
        "node" => Ok(RankOrder::ByNode),
        _ => Err(RequestError::RankBy(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(text: &str) -> RankMapping {
        let mut mapping = RankMapping::default();
        map_by(text, &mut mapping).unwrap();
        mapping
    }

    #[test]
    fn values_of_map_by_are_read_or_refused() {
        assert_eq!(mapped("ppr:2:node:PE=4").per_node, Some(2));
        assert_eq!(mapped("ppr:2:node:pe=4").processors, Some(4));
        assert_eq!(mapped("ppr:3:socket").per_node, Some(3));
        assert!(mapped("seq").sequential);
        assert_eq!(mapped("rankfile:file=my").rank_file.as_deref(), Some("my"));
        for wrong in [
            "ppr:2:core",
            "ppr:x:node",
            "ppr",
            "dist:eth0",
            "rankfile",
            "slot:PE=0",
            "slot:PE=x",
            "node:nolocal",
            "slot:file=x",
            "gpu",
        ] {
            let error = map_by(wrong, &mut RankMapping::default())
                .unwrap_err()
                .to_string();
            assert!(error.starts_with(&format!("--map-by {wrong}: ")), "{error}");
        }
        assert_eq!(rank_by("node"), Ok(RankOrder::ByNode));
        assert!(rank_by("x").is_err());
    }
}
