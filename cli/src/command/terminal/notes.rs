//! Messages of libraries, on standard error.
//!
//! Libraries that read guests' rings log each damaged one, and a guest can cause any number of them. The first few lines of these
//! complaints are written, and the rest is counted.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tracing::{Metadata, Subscriber};
use tracing_subscriber::filter::FilterFn;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{filter, fmt, registry};

/// The library whose messages depend on guests.
const OF_GUESTS: &str = "virtio_queue";

/// Its lines that are written.
const MOST: u64 = 8;

/// Its lines so far.
static SAID: AtomicU64 = AtomicU64::new(0);

/// True if only results, warnings and errors are printed.
static QUIET: AtomicBool = AtomicBool::new(false);

/// True if notes and progress are printed.
pub(crate) fn are_wanted() -> bool {
    !QUIET.load(Ordering::Relaxed)
}

/// Writes all messages from now on, or if `quiet` warnings and errors alone.
pub(crate) fn tell(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
    subscriber(io::stderr, super::colour::of_errors(), quiet).init();
}

/// The number of lines that were left out.
pub(crate) fn left_out() -> u64 {
    SAID.load(Ordering::Relaxed).saturating_sub(MOST)
}

fn subscriber<W>(writer: W, colours: bool, quiet: bool) -> impl Subscriber + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = fmt::layer()
        .with_writer(writer)
        .with_ansi(colours)
        .with_target(false)
        .without_time();
    let told: FilterFn = filter::filter_fn(is_told);
    registry()
        .with(told)
        .with(match quiet {
            true => filter::LevelFilter::WARN,
            false => filter::LevelFilter::INFO,
        })
        .with(lines)
}

fn is_told(said: &Metadata<'_>) -> bool {
    !said.target().starts_with(OF_GUESTS) || SAID.fetch_add(1, Ordering::Relaxed) < MOST
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::sync::Mutex;

    #[test]
    fn a_guest_fills_nobodys_screen() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let writer = Mutex::new(file.reopen().unwrap());
        tracing::subscriber::with_default(subscriber(writer, false, false), || {
            for number in 0..1000 {
                for target in ["virtio_queue::queue", "elsewhere"] {
                    let text = format_args!("{target} {number}");
                    let record = log::Record::builder()
                        .level(log::Level::Error)
                        .target(target)
                        .args(text)
                        .build();
                    tracing_log::format_trace(&record).unwrap();
                }
            }
        });
        let told = fs::read_to_string(file.path()).unwrap();
        let lines = |of: &str| told.lines().filter(|line| line.contains(of)).count();
        assert_eq!(lines("virtio_queue"), MOST as usize);
        assert_eq!(lines("elsewhere"), 1000);
        assert_eq!(left_out(), 1000 - MOST);
    }
}
