//! Short scenarios.
//!
//! All other keys have defaults that boot fast: small nodes, clones, Debian with MPICH. Written into a
//! test's folder by [`Dir`](crate::Dir).

use std::path::{Path, PathBuf};

use crate::root;

/// A scenario for a test: small nodes with Debian and MPICH.
#[derive(Clone, Debug)]
pub struct Scenario {
    nodes: u32,
    vcpus: u32,
    command: String,
    more: String,
    workload: String,
    recipe: String,
    root: Option<PathBuf>,
    limit: String,
    boot: &'static str,
}

impl Scenario {
    /// `command` on node 0 of `nodes` nodes.
    pub fn new(nodes: u32, command: &str) -> Self {
        Self {
            nodes,
            vcpus: 1,
            command: command.to_owned(),
            more: String::new(),
            workload: String::new(),
            recipe: "bookworm-mpich".to_owned(),
            root: None,
            limit: "60 s".to_owned(),
            boot: "clone",
        }
    }

    /// On the image of another recipe.
    #[must_use]
    pub fn on(mut self, recipe: &str) -> Self {
        self.recipe = recipe.to_owned();
        self
    }

    /// On a container image or a root file system.
    #[must_use]
    pub fn on_root(mut self, path: &Path) -> Self {
        self.root = Some(path.to_owned());
        self
    }

    /// On nodes of several vCPUs, with the image for these.
    #[must_use]
    pub fn vcpus(mut self, vcpus: u32) -> Self {
        self.vcpus = vcpus;
        self.on("bookworm-smp")
    }

    /// With another piece of TOML, such as a section.
    #[must_use]
    pub fn with(mut self, toml: &str) -> Self {
        self.more.push_str(toml);
        self.more.push('\n');
        self
    }

    /// With more keys of its workload.
    #[must_use]
    pub fn working(mut self, toml: &str) -> Self {
        self.workload.push_str(toml);
        self.workload.push('\n');
        self
    }

    /// With this limit of virtual time.
    #[must_use]
    pub fn limited(mut self, limit: &str) -> Self {
        self.limit = limit.to_owned();
        self
    }

    /// Without clones.
    #[must_use]
    pub fn booting_each(mut self) -> Self {
        self.boot = "each";
        self
    }

    fn memory(&self) -> &'static str {
        if self.vcpus > 1 { "512 MiB" } else { "256 MiB" }
    }

    /// The file.
    pub fn text(&self) -> String {
        let recipe = root().join(format!("images/{}.toml", self.recipe));
        let recipe = self.root.as_ref().unwrap_or(&recipe);
        format!(
            "name = \"test\"\nimage = {{ recipe = {recipe:?} }}\n\
             nodes.count = {}\nnodes.vcpus = {}\nnodes.memory = \"{}\"\nnodes.clock = \"2 GHz\"\nnodes.boot = {:?}\n{}\n\
             [workload]\ncommand = '''{}'''\nlimit = \"{}\"\n{}",
            self.nodes,
            self.vcpus,
            self.memory(),
            self.boot,
            self.more,
            self.command,
            self.limit,
            self.workload
        )
    }
}
