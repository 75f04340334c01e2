//! Logs of workloads in the Standard Workload Format (D. Feitelson, Parallel Workloads Archive, version 2.2).
//!
//! A line is a job with 18 fields, with -1 for unknown values; lines that begin with `;` are comments. The fields used are a job's submission, its duration, its
//! processors, and its user's requested time. Invalid lines, and jobs that did not run, are left out and counted. Used by readers of mixes.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use belljar_files::open_input;
use flate2::bufread::MultiGzDecoder;

use crate::job::Nanos;

/// A job of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedJob {
    /// Its number in the log.
    pub number: u64,
    /// The time of its submission.
    pub arrival: Nanos,
    /// Its duration.
    pub duration: Nanos,
    /// Its user's requested time; the duration if unknown.
    pub estimate: Nanos,
    /// Its processors.
    pub processors: u32,
}

/// The contents of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// Its jobs, in the order of submission.
    pub jobs: Vec<LoggedJob>,
    /// Jobs that did not run, or with unknown duration or number of processors.
    pub incomplete: u64,
    /// Number of invalid lines, and the first of them, from 1.
    pub broken: Option<(u64, u64)>,
}

/// Most bytes of a compressed log.
const LONGEST_TEXT: u64 = 1 << 30;
/// First bytes of compressed files, the program that creates them, and the one that decompresses them.
const COMPRESSED: [(&[u8], &str, &str); 6] = [
    (b"\x1f\x8b", "gzip", "gunzip"),
    (b"\x1f\x9d", "compress", "uncompress"),
    (b"BZh", "bzip2", "bunzip2"),
    (b"\xfd7zXZ", "xz", "unxz"),
    (b"\x28\xb5\x2f\xfd", "zstd", "unzstd"),
    (b"PK\x03\x04", "zip", "unzip"),
];
/// Longest valid line.
const LONGEST: u64 = 4096;
/// Nanoseconds in a second.
const SECOND: f64 = 1e9;

impl Log {
    /// Reads the log at `path`, which may be compressed by gzip.
    ///
    /// # Errors
    /// Returns an error if it cannot be read, is compressed by another program, or has more than a gibibyte of text.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = BufReader::new(open_input(path)?);
        let start = file.fill_buf()?;
        let compressed = COMPRESSED
            .iter()
            .find(|(magic, ..)| start.starts_with(magic));
        match compressed {
            None => Self::read(file),
            Some((_, "gzip", _)) => {
                let mut text = BufReader::new(MultiGzDecoder::new(file)).take(LONGEST_TEXT + 1);
                let log = Self::read(&mut text)?;
                match text.limit() {
                    0 => Err(io::Error::other(format!(
                        "it has more than {LONGEST_TEXT} bytes without its compression; decompress it with gunzip"
                    ))),
                    _ => Ok(log),
                }
            }
            Some((_, by, tool)) => Err(io::Error::other(format!(
                "it is compressed by {by}, which is not read; decompress it with {tool}"
            ))),
        }
    }

    /// Reads a log's text.
    ///
    /// # Errors
    /// Returns the errors of `from`.
    pub fn read(from: impl BufRead) -> io::Result<Self> {
        let mut log = Self::default();
        let mut from = from;
        let mut number = 0;
        loop {
            let mut line = Vec::new();
            let read = io::Read::take(&mut from, LONGEST).read_until(b'\n', &mut line)?;
            if read == 0 {
                break;
            }
            number += 1;
            let line = String::from_utf8_lossy(&line);
            let line = line.trim();
            if line.is_empty() || line.starts_with(';') {
                continue;
            }
            match job(line) {
                Some(Some(job)) => log.jobs.push(job),
                Some(None) => log.incomplete += 1,
                None => {
                    let (_, count) = log.broken.get_or_insert((number, 0));
                    *count += 1;
                }
            }
        }
        log.jobs.sort_by_key(|job| (job.arrival, job.number));
        Ok(log)
    }
}

/// Parses a line's job; `Some(None)` if it did not run, `None` if the line is invalid.
fn job(line: &str) -> Option<Option<LoggedJob>> {
    let fields: Vec<f64> = line
        .split_whitespace()
        .map(|field| field.parse().ok().filter(|value: &f64| value.is_finite()))
        .collect::<Option<_>>()?;
    if fields.len() != 18 {
        return None;
    }
    let known = |at: usize| Some(fields[at]).filter(|value| *value >= 0.0);
    let job = || {
        // Allocated processors take precedence over requested ones.
        let processors = [known(4), known(7)].into_iter().flatten();
        let processors = processors
            .filter(|count| *count >= 1.0)
            .find(|count| *count <= 1e9)?;
        let duration = known(3).filter(|span| *span > 0.0)? * SECOND;
        let asked = known(8).map_or(duration, |span| span * SECOND);
        Some(LoggedJob {
            number: known(0)? as u64,
            arrival: (known(1)? * SECOND) as Nanos,
            duration: duration as Nanos,
            estimate: asked.max(duration) as Nanos,
            processors: processors as u32,
        })
    };
    Some(job())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_read_and_what_is_none_is_counted() {
        let text = "; Version: 2.2\n\
            2 30 5 60 8 -1 -1 8 120 -1 1 1 1 -1 1 -1 -1 -1\n\
            1 10 0 100 -1 -1 -1 4 -1 -1 1 1 1 -1 1 -1 -1 -1\n\
            3 40 0 -1 4 -1 -1 4 60 -1 5 1 1 -1 1 -1 -1 -1\n\
            broken line\n\
            4 50 0 10 4\n\n";
        let log = Log::read(text.as_bytes()).unwrap();
        assert_eq!(log.jobs.len(), 2);
        let second = 1_000_000_000;
        assert_eq!(
            log.jobs[0],
            LoggedJob {
                number: 1,
                arrival: 10 * second,
                duration: 100 * second,
                estimate: 100 * second,
                processors: 4
            }
        );
        assert_eq!(
            (log.jobs[1].processors, log.jobs[1].estimate),
            (8, 120 * second)
        );
        assert_eq!(log.incomplete, 1);
        assert_eq!(log.broken, Some((5, 2)));
    }

    #[test]
    fn compressed_logs_are_read_or_refused_by_name() {
        use std::io::Write;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.swf.gz");
        let line = |number: u32| format!("{number} 10 0 100 4 -1 -1 4 -1 -1 1 1 1 -1 1 -1 -1 -1\n");
        let packed = |text: String| {
            let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            out.write_all(text.as_bytes()).unwrap();
            out.finish().unwrap()
        };
        // Two members, as created by `cat a.gz b.gz`.
        let bytes = [packed(line(1)), packed(line(2))].concat();
        std::fs::write(&path, &bytes).unwrap();
        let numbers = |log: Log| log.jobs.iter().map(|job| job.number).collect::<Vec<_>>();
        assert_eq!(numbers(Log::open(&path).unwrap()), [1, 2]);
        std::fs::write(&path, &bytes[..bytes.len() - 4]).unwrap();
        assert!(Log::open(&path).is_err());
        std::fs::write(&path, line(7)).unwrap();
        assert_eq!(numbers(Log::open(&path).unwrap()), [7]);
        std::fs::write(&path, b"BZh91AY").unwrap();
        let error = Log::open(&path).unwrap_err().to_string();
        assert!(
            error.contains("bzip2") && error.contains("bunzip2"),
            "{error}"
        );
    }

    #[test]
    fn long_lines_take_no_more_memory() {
        let text = "9".repeat(100_000);
        let log = Log::read(text.as_bytes()).unwrap();
        assert_eq!(log.jobs, []);
        assert_eq!(log.broken, Some((1, 25)));
    }
}
