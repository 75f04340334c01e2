//! Scenarios made of few words.

use crate::root;

/// A scenario for a test: small nodes with Debian and MPICH.
#[derive(Clone, Debug)]
pub struct Scenario {
    nodes: u32,
    command: String,
    more: String,
}

impl Scenario {
    /// `command` on node 0 of `nodes` nodes.
    pub fn new(nodes: u32, command: &str) -> Self {
        Self {
            nodes,
            command: command.to_owned(),
            more: String::new(),
        }
    }

    /// With another piece of TOML, such as a section.
    #[must_use]
    pub fn with(mut self, toml: &str) -> Self {
        self.more.push_str(toml);
        self.more.push('\n');
        self
    }

    /// The file.
    pub fn text(&self) -> String {
        let recipe = root().join("images/bookworm-mpich.toml");
        format!(
            "name = \"test\"\nimage = {{ recipe = {recipe:?} }}\n\
             nodes = {{ count = {}, memory = \"256 MiB\", clock = \"2 GHz\" }}\n{}\n\
             [workload]\ncommand = '''{}'''\nlimit = \"60 s\"\n",
            self.nodes, self.more, self.command
        )
    }
}
