//! The lab that the hosts are in: a process of the tests' (`tests/src/bin/lab.rs`), which takes orders line
//! by line.
//!
//! It takes root. All that is in it ends when its standard input does, so also with this process. Started
//! by `bench hosts`.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::shell::{self, cargo};

/// A lab with a head and some hosts; it is gone with this value.
pub(super) struct Lab {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Lab {
    /// One of `hosts` hosts besides the head, on which `belljar` is run.
    pub(super) fn start(hosts: u32, belljar: &Path) -> Result<Self> {
        let build = ["build", "--release", "--package", "belljar-tests"];
        shell::run(&cargo(), &[&build[..], &["--bin", "lab"]].concat())?;
        let program = belljar.with_file_name("lab");
        let mut child = Command::new(&program)
            .arg(hosts.to_string())
            .arg(belljar)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let answers = child.stdout.take().context("the lab has no output")?;
        let mut lab = Self {
            orders: child.stdin.take(),
            answers: BufReader::new(answers),
            child,
        };
        lab.answer("ready")
            .context("there is no lab; it takes root, and says above what else is missing")?;
        Ok(lab)
    }

    /// Has each packet between hosts be late by so many microseconds; `None` leaves them to
    /// the lab's own links. The round trip that is measured then, in microseconds.
    pub(super) fn lay(&mut self, late: Option<f64>) -> Result<f64> {
        match late {
            None => self.order("links")?,
            Some(late) => self.order(&format!("wire {late}"))?,
        }
        let nanoseconds: f64 = self.answer("round-trip")?.parse()?;
        Ok(nanoseconds / 1e3)
    }

    /// Starts `belljar run` with these arguments on the head.
    pub(super) fn start_run(&mut self, arguments: &str) -> Result<()> {
        self.order(&format!("start run {arguments}"))?;
        self.answer("started").map(drop)
    }

    /// Interrupts that run and waits for its end.
    pub(super) fn stop_run(&mut self) -> Result<()> {
        self.order("stop")?;
        self.answer("exit").map(drop)
    }

    fn order(&mut self, line: &str) -> Result<()> {
        let orders = self.orders.as_mut().context("the lab is closed")?;
        writeln!(orders, "{line}").context("the lab takes no order")
    }

    /// What the next line says after `word`.
    fn answer(&mut self, word: &str) -> Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        match line.trim().strip_prefix(word) {
            Some(rest) => Ok(rest.trim().to_owned()),
            None => bail!("the lab says {line:?} where it should say `{word}`"),
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // At the end of its orders it goes.
        drop(self.orders.take());
        let _ = self.child.wait();
    }
}
