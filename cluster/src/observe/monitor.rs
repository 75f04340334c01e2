//! A running cluster on one screen.
//!
//! Shows only the last look at the run, so it can be drawn without a run. Control characters of guests do
//! not reach the terminal. Called by `belljar watch`.

use std::time::Duration;

use belljar_sim::figures::{decimal, share};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table, TableState};

use crate::observe::control::Look;
use crate::results::stream::Stream;

/// A finished run, from its files.
mod finished;
/// The end of a console's file, for a screen that is not the guest's terminal.
mod tail;

pub use finished::{FinishedError, finished};
pub use tail::tail;

/// Node 0's outputs, in the order of display.
const SHOWN: [Stream; 3] = [Stream::Stdout, Stream::Stderr, Stream::Console];

/// The content of the screen.
#[derive(Debug, Default)]
pub struct Monitor {
    name: String,
    look: Look,
    before: Look,
    /// Virtual time over host time between the last two looks.
    speed: f64,
    looks: u64,
    selected: usize,
    /// The shown output of node 0; other nodes show their consoles.
    shown: usize,
    output: Vec<String>,
}

impl Monitor {
    /// An empty screen for the run called `name`.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// Takes a new look, `passed` of host time after the last one.
    pub fn take(&mut self, look: Look, passed: Duration) {
        let virtual_time = look.now_ps.saturating_sub(self.look.now_ps) as f64 / 1e12;
        self.speed = virtual_time / passed.as_secs_f64().max(1e-9);
        self.before = std::mem::replace(&mut self.look, look);
        self.looks += 1;
        self.selected = self.selected.min(self.look.nodes.len().saturating_sub(1));
    }

    /// Takes the last lines of the output that is [shown](Self::shown).
    pub fn take_output(&mut self, lines: Vec<String>) {
        self.output = lines;
    }

    /// The shown node and output; initially the workload's standard output.
    pub fn shown(&self) -> (u32, Stream) {
        match self.selected {
            0 => (0, SHOWN[self.shown % SHOWN.len()]),
            node => (node as u32, Stream::Console),
        }
    }

    /// Shows node 0's next output.
    pub fn show_next(&mut self) {
        self.shown += 1;
    }

    /// True if virtual time is paused.
    pub fn is_paused(&self) -> bool {
        self.look.paused
    }

    /// Shows the console of the node that is `by` positions further.
    pub fn select(&mut self, by: isize) {
        let last = self.look.nodes.len().saturating_sub(1);
        self.selected = self.selected.saturating_add_signed(by).min(last);
    }

    /// Draws the screen.
    pub fn draw(&self, frame: &mut Frame<'_>) {
        let [head, upper, lower, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Percentage(50),
            Constraint::Fill(1),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        let [nodes, functions, links] = Layout::horizontal([
            Constraint::Length(46),
            Constraint::Length(32),
            Constraint::Fill(1),
        ])
        .areas(upper);
        frame.render_widget(Paragraph::new(self.headline()), head);
        self.draw_nodes(frame, nodes);
        self.draw_functions(frame, functions);
        self.draw_links(frame, links);
        self.draw_output(frame, lower);
        let keys = "up/down: node   tab: output of node 0   p: pause   q: leave; the run continues";
        frame.render_widget(Paragraph::new(keys).style(dim()), foot);
    }

    fn headline(&self) -> Line<'static> {
        let look = &self.look;
        let ready = look.nodes.iter().filter(|node| node.ready).count();
        let state = match () {
            () if look.paused => "paused".to_owned(),
            () if self.looks < 2 => "running".to_owned(),
            () => format!(
                "{} x real time, {} million instructions/s",
                decimal(self.speed, 3),
                decimal(self.mips(), 0)
            ),
        };
        Line::styled(
            format!(
                "{}: virtual time {} s, {state}, {ready} of {} nodes up",
                self.name,
                decimal(look.now_ps as f64 / 1e12, 6),
                look.nodes.len()
            ),
            Style::new().add_modifier(Modifier::BOLD),
        )
    }

    /// Million instructions of all nodes in each host second.
    fn mips(&self) -> f64 {
        let sum = |look: &Look| look.nodes.iter().map(|node| node.instructions).sum::<u64>();
        let more = sum(&self.look).saturating_sub(sum(&self.before)) as f64 / 1e6;
        let virtual_time = self.virtual_seconds();
        if virtual_time > 0.0 {
            more * self.speed / virtual_time
        } else {
            0.0
        }
    }

    /// Virtual seconds between the last two looks; zero after the first.
    fn virtual_seconds(&self) -> f64 {
        if self.looks < 2 {
            return 0.0;
        }
        self.look.now_ps.saturating_sub(self.before.now_ps) as f64 / 1e12
    }

    fn draw_nodes(&self, frame: &mut Frame<'_>, area: Rect) {
        let rows = self.look.nodes.iter().zip(0..).map(|(node, index)| {
            let state = match (node.ended, node.ready) {
                (true, _) => "ended",
                (_, true) => "up",
                _ => "boots",
            };
            right([
                index.to_string(),
                state.to_owned(),
                short(node.instructions),
                short(node.frames),
                short(node.calls),
            ])
        });
        let table = Table::new(rows, [5, 6, 12, 8, 8])
            .header(right(["node", "", "instructions", "frames", "calls"]).style(dim()))
            .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
            .block(Block::bordered().title("Nodes"));
        let mut state = TableState::default().with_selected(self.selected);
        frame.render_stateful_widget(table, area, &mut state);
    }

    fn draw_functions(&self, frame: &mut Frame<'_>, area: Rect) {
        let seconds = self.virtual_seconds();
        let mut rates: Vec<(f64, &str)> = self
            .look
            .functions
            .iter()
            .map(|(name, count)| {
                let mut before = self.before.functions.iter();
                let before = before
                    .find(|(other, _)| other == name)
                    .map_or(0, |(_, count)| *count);
                let more = count.saturating_sub(before) as f64;
                (
                    if seconds > 0.0 { more / seconds } else { 0.0 },
                    name.as_str(),
                )
            })
            .collect();
        rates.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
        let rows = rates.into_iter().map(|(rate, name)| {
            Row::new([
                Cell::new(name.to_owned()),
                Cell::new(Line::from(short(rate as u64)).right_aligned()),
            ])
        });
        let title = Block::bordered().title("MPI calls a virtual second");
        frame.render_widget(
            Table::new(rows, [Constraint::Fill(1), Constraint::Length(8)]).block(title),
            area,
        );
    }

    fn draw_links(&self, frame: &mut Frame<'_>, area: Rect) {
        let rows = self.look.links.iter().map(|link| {
            let figures = [
                format!("{} B", short(link.bytes)),
                share(link.busy, 1),
                short(link.drops),
            ];
            let figures = figures.map(|figure| Cell::new(Line::from(figure).right_aligned()));
            Row::new(std::iter::once(Cell::new(link.name.clone())).chain(figures))
        });
        let widths = [
            Constraint::Fill(1),
            Constraint::Length(9),
            Constraint::Length(7),
            Constraint::Length(5),
        ];
        let title = Block::bordered().title("Busiest links: bytes, busy, lost");
        frame.render_widget(Table::new(rows, widths).block(title), area);
    }

    fn draw_output(&self, frame: &mut Frame<'_>, area: Rect) {
        let room = usize::from(area.height.saturating_sub(2));
        let skipped = self.output.len().saturating_sub(room);
        let lines: Vec<Line<'_>> = self.output[skipped..]
            .iter()
            .map(|line| Line::from(line.as_str()))
            .collect();
        let (node, stream) = self.shown();
        let title = match stream {
            Stream::Console => format!("Console of node {node}"),
            stream => format!("The command's {}", stream.what()),
        };
        let title = Block::bordered().title(title);
        frame.render_widget(Paragraph::new(lines).block(title), area);
    }
}

fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

fn right<const N: usize>(cells: [impl Into<String>; N]) -> Row<'static> {
    Row::new(cells.map(|cell| Cell::new(Line::from(cell.into()).right_aligned())))
}

/// A number in at most seven characters.
fn short(number: u64) -> String {
    match number {
        0..100_000 => number.to_string(),
        100_000..100_000_000 => format!("{} k", decimal(number as f64 / 1e3, 1)),
        100_000_000..100_000_000_000 => format!("{} M", decimal(number as f64 / 1e6, 1)),
        _ => format!("{} G", decimal(number as f64 / 1e9, 1)),
    }
}

/// The screen as text, `width` by `height`.
pub fn text(monitor: &Monitor, width: u16, height: u16) -> String {
    let backend = ratatui::backend::TestBackend::new(width, height);
    // Drawing into memory cannot fail.
    let Ok(mut terminal) = ratatui::Terminal::new(backend);
    let Ok(_) = terminal.draw(|frame| monitor.draw(frame));
    let buffer = terminal.backend().buffer();
    let lines = buffer.content().chunks(usize::from(width)).map(|cells| {
        let line: String = cells.iter().map(|cell| cell.symbol()).collect();
        line.trim_end().to_owned() + "\n"
    });
    lines.collect()
}

#[cfg(test)]
mod tests;
