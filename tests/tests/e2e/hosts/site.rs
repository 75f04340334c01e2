//! A lab with the command under test, which runs on its head in the shared folder.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use belljar_tests::lab::Lab;
use belljar_tests::{Dir, Scenario};

/// General time limit on a busy machine.
pub(super) const SOON: Duration = Duration::from_secs(120);

/// A lab, and the command under test on its head.
pub(super) struct Site {
    pub(super) dir: Dir,
    pub(super) lab: Lab,
}

impl Site {
    /// Starts a lab with this number of hosts.
    pub(super) fn start(hosts: usize) -> Option<Self> {
        let dir = Dir::new()?;
        let lab = Lab::start(hosts)?;
        Some(Self { dir, lab })
    }

    /// `belljar` on the head, in the shared folder.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let (head, folder) = (self.lab.head(), self.lab.shared());
        let mut command = head.command_in(folder, self.dir.binary());
        command.args(arguments);
        command
    }

    /// A file in that folder.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.lab.shared().join(name)
    }

    /// The file of `scenario`, there.
    pub(super) fn scenario(&self, scenario: &Scenario) -> String {
        let path = self.file("scenario.toml");
        fs::write(&path, scenario.text()).expect("the lab's folder is writable");
        path.to_str().expect("a plain path").to_owned()
    }
}
