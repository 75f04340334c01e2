//! `belljar watch` and `belljar console`.
//!
//! Reads the host's clock to compute the speed of a run; no run depends on it here.
#![allow(clippy::disallowed_methods)]

use std::fs::File;
use std::io::{self, IsTerminal, Read, Seek, SeekFrom, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use belljar_cluster::observe::control::{Client, ControlError, ControlRequest, MOST_TYPED};
use belljar_cluster::observe::keyboard::Keyboard;
use belljar_cluster::observe::monitor::{Monitor, finished, tail, text};
use belljar_cluster::results::stream::Stream;
use belljar_files::open_input;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};

use crate::command::output::print;
use crate::command::terminal::colour::plain_line;
use clap::Args;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct WatchArguments {
    /// Run directory, with or without `.incomplete`.
    pub(crate) directory: PathBuf,
    /// Print one screen as text and exit.
    #[arg(long)]
    pub(crate) once: bool,
    /// Print the messages of MPI that wait, and the call of each rank.
    #[arg(long, conflicts_with = "once")]
    pub(crate) queues: bool,
}

#[derive(Args)]
pub(crate) struct ConsoleArguments {
    /// Run directory, with or without `.incomplete`.
    pub(crate) directory: PathBuf,
    /// Number of the node.
    pub(crate) node: u32,
    /// Let virtual time run at full speed.
    ///
    /// Otherwise it is no faster than real time while a console is attached.
    #[arg(long)]
    pub(crate) fast: bool,
    /// Start with virtual time paused; Ctrl-A p continues.
    #[arg(long)]
    pub(crate) pause: bool,
}

/// Time between updates of the screen, and of a console.
const REFRESH: Duration = Duration::from_millis(250);
const ECHO: Duration = Duration::from_millis(30);
/// Bytes of earlier console output that are shown on attaching.
const CONTEXT: u64 = 2048;
/// Of a screen without a terminal.
const PAGE: (u16, u16) = (120, 40);

/// A run that is watched.
struct Watched {
    client: Client,
    monitor: Monitor,
    looked: Instant,
}

impl Watched {
    fn refresh(&mut self) -> Result<(), ControlError> {
        let look = self.client.look()?;
        let now = Instant::now();
        self.monitor.take(look, now.duration_since(self.looked));
        self.looked = now;
        let (node, stream) = self.monitor.shown();
        let file = stream
            .file(node)
            .map(|name| self.client.directory().join(name));
        // Without a readable file there are no lines to show.
        let lines = file.and_then(|file| tail(&file).ok());
        self.monitor.take_output(lines.unwrap_or_default());
        Ok(())
    }
}

/// `belljar watch`.
pub(crate) fn watch(arguments: &WatchArguments) -> Result<ExitCode> {
    let directory = &arguments.directory;
    let client = match Client::connect(directory) {
        Ok(mut client) if arguments.queues => {
            print(client.queues()?)?;
            return Ok(ExitCode::SUCCESS);
        }
        Ok(client) => client,
        Err(error @ ControlError::NotRunning(_)) if arguments.queues => {
            return Err(error).context("see an ended run with: belljar trace hang DIRECTORY");
        }
        Err(ControlError::NotRunning(_)) => {
            print(finished(directory)?)?;
            return Ok(ExitCode::SUCCESS);
        }
        Err(error) => return Err(error.into()),
    };
    let mut watched = Watched {
        monitor: Monitor::new(&client.hello.name),
        client,
        looked: Instant::now(),
    };
    watched.refresh()?;
    if arguments.once || !io::stdout().is_terminal() {
        std::thread::sleep(REFRESH);
        watched.refresh()?;
        print(text(&watched.monitor, PAGE.0, PAGE.1))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut terminal = ratatui::try_init().context("cannot use this terminal; try --once")?;
    let result = show(&mut terminal, &mut watched);
    ratatui::restore();
    match result {
        Ok(()) => {}
        // The error explains the end.
        Err(Leave::Run(error)) => {
            plain_line(&error.to_string());
            std::thread::sleep(REFRESH);
            print(finished(directory)?)?;
        }
        Err(Leave::Terminal(error)) => return Err(error.into()),
    }
    Ok(ExitCode::SUCCESS)
}

/// Reason for leaving the screen.
enum Leave {
    Run(ControlError),
    Terminal(io::Error),
}

fn show(terminal: &mut ratatui::DefaultTerminal, watched: &mut Watched) -> Result<(), Leave> {
    loop {
        terminal
            .draw(|frame| watched.monitor.draw(frame))
            .map_err(Leave::Terminal)?;
        let until = Instant::now() + REFRESH;
        while event::poll(until.saturating_duration_since(Instant::now()))
            .map_err(Leave::Terminal)?
        {
            let Event::Key(key) = event::read().map_err(Leave::Terminal)? else {
                break;
            };
            if key.kind != KeyEventKind::Press {
                continue;
            }
            match key.code {
                KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                    return Ok(());
                }
                KeyCode::Up => watched.monitor.select(-1),
                KeyCode::Down => watched.monitor.select(1),
                KeyCode::Tab => watched.monitor.show_next(),
                KeyCode::Char('p') => {
                    let pause = ControlRequest::Pause(!watched.monitor.is_paused());
                    watched.client.order(&pause).map_err(Leave::Run)?;
                }
                _ => {}
            }
            break;
        }
        watched.refresh().map_err(Leave::Run)?;
    }
}

/// `belljar console`.
pub(crate) fn console(arguments: &ConsoleArguments) -> Result<ExitCode> {
    let mut client = Client::connect(&arguments.directory)?;
    let (node, nodes) = (arguments.node, client.hello.nodes);
    if node >= nodes {
        bail!("there is no node {node}; nodes are 0 to {}", nodes - 1);
    }
    if !arguments.fast {
        client.order(&ControlRequest::Pace(Some(1.0)))?;
    }
    client.order(&ControlRequest::Pause(arguments.pause))?;
    client.look()?;
    let name = Stream::Console.file(node).unwrap_or_default();
    let path = client.directory().join(name);
    let mut log = open_input(&path).with_context(|| format!("cannot open {}", path.display()))?;
    let length = log.metadata()?.len();
    log.seek(SeekFrom::Start(length.saturating_sub(CONTEXT)))?;
    if io::stdin().is_terminal() {
        note!(
            "console of node {node}: Ctrl-A x leaves, Ctrl-A p has virtual time wait or continue\r"
        );
    }
    let mut keyboard = Keyboard::stdin();
    let mut attached = Attached {
        client,
        node,
        paused: arguments.pause,
        log,
    };
    let ended = loop {
        match attached.turn(&mut keyboard) {
            Ok(true) => {}
            Ok(false) => break None,
            Err(LeaveReason::Run(error)) => break Some(error),
            Err(LeaveReason::Terminal(error)) => return Err(error.into()),
        }
    };
    drop(keyboard);
    if let Some(error) = ended {
        plain_line(&error.to_string());
    }
    Ok(ExitCode::SUCCESS)
}

struct Attached {
    client: Client,
    node: u32,
    paused: bool,
    log: File,
}

/// Reason for leaving a console.
enum LeaveReason {
    Run(ControlError),
    Terminal(io::Error),
}

impl From<ControlError> for LeaveReason {
    fn from(error: ControlError) -> Self {
        Self::Run(error)
    }
}

impl From<io::Error> for LeaveReason {
    fn from(error: io::Error) -> Self {
        Self::Terminal(error)
    }
}

impl Attached {
    /// Forwards typed keys and shows new output of the node; returns `false` to leave.
    fn turn(&mut self, keyboard: &mut Keyboard) -> Result<bool, LeaveReason> {
        if keyboard.is_closed() {
            std::thread::sleep(ECHO);
        }
        let typed = keyboard.typed(ECHO);
        for bytes in typed.bytes.chunks(MOST_TYPED) {
            let (node, bytes) = (self.node, bytes.to_vec());
            self.client.order(&ControlRequest::Type { node, bytes })?;
        }
        if typed.pauses {
            self.paused = !self.paused;
            self.client.order(&ControlRequest::Pause(self.paused))?;
        }
        let looked = self.client.look();
        self.show()?;
        looked?;
        Ok(!typed.leaves)
    }

    fn show(&mut self) -> io::Result<()> {
        let mut bytes = Vec::new();
        self.log.read_to_end(&mut bytes)?;
        let mut out = io::stdout().lock();
        out.write_all(&bytes)?;
        out.flush()
    }
}
