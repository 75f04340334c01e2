//! Links as pcapng files that Wireshark opens, stamped in virtual time.
//!
//! A frame is written once no earlier one can come, so a file's frames are in the order of virtual time,
//! independent of the rounds. The coordinator passes captured frames from the fabric; checkpoints contain
//! each file's length.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::time::Duration;

use belljar_fabric::{Captured, Direction, Fabric, LinkId};
use belljar_sim::Time;
use pcap_file::DataLink;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};

use serde::{Deserialize, Serialize};

use crate::results::run_directory::{RunDirectory, RunDirectoryError};

/// Errors of writing a capture.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file cannot be made.
    #[error(transparent)]
    Directory(#[from] RunDirectoryError),
    /// Other links are captured than before.
    #[error("the links to capture differ from the captured ones; continue with the same links")]
    Others,
    /// The file cannot be written.
    #[error("cannot write the capture of {link}: {source}")]
    Write {
        /// The link's name.
        link: String,
        /// The reason.
        source: pcap_file::PcapError,
    },
}

/// Writers for all watched links.
#[derive(Default)]
pub struct Captures {
    links: Vec<LinkCapture>,
}

struct LinkCapture {
    link: LinkId,
    name: String,
    writer: PcapNgWriter<CaptureFile>,
    /// Frames that earlier ones may still follow.
    waiting: Vec<Captured>,
}

/// The length of a capture, and the waiting frames.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CaptureState {
    name: String,
    length: u64,
    waiting: Vec<(Time, Direction, Vec<u8>)>,
}

impl CaptureState {
    /// Its file in the run directory, and the file's length.
    pub(crate) fn file(&self) -> (String, u64) {
        (file_of(&self.name), self.length)
    }
}

/// A capture's file. A writer that continues a file would repeat its header, which must not appear twice.
struct CaptureFile {
    file: BufWriter<File>,
    begun: bool,
}

impl Write for CaptureFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.begun {
            return Ok(bytes.len());
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Timestamps in nanoseconds: 10 to the power of -9.
const NANOSECONDS: u8 = 9;
const SNAP_LENGTH: u32 = 0x4_0000;

impl Captures {
    /// Starts a capture for each of `links`.
    ///
    /// # Errors
    /// If a file cannot be made.
    pub fn start(
        directory: &RunDirectory,
        fabric: &mut Fabric,
        links: &[LinkId],
    ) -> Result<Self, CaptureError> {
        let mut started = Vec::new();
        for &link in links {
            fabric.watch(link);
            let name = fabric.topology().link_name(link);
            let file = directory.file(&file_of(&name))?;
            let writer = open(file, false).and_then(|writer| name_directions(writer, &name));
            let writer = writer.map_err(|source| CaptureError::Write {
                link: name.clone(),
                source,
            })?;
            started.push(LinkCapture {
                link,
                name,
                writer,
                waiting: Vec::new(),
            });
        }
        Ok(Self { links: started })
    }

    /// Flushes all captures, which are complete.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn finish(&mut self) -> Result<(), CaptureError> {
        for capture in &mut self.links {
            let flushed = capture.writer.get_mut().flush();
            flushed.map_err(|error| CaptureError::Write {
                link: capture.name.clone(),
                source: pcap_file::PcapError::IoError(error),
            })?;
        }
        Ok(())
    }

    /// The states of all captures.
    ///
    /// # Errors
    /// If the host cannot write buffered data.
    pub(crate) fn save(&mut self) -> Result<Vec<CaptureState>, CaptureError> {
        let save = |capture: &mut LinkCapture| {
            let waiting = capture.waiting.iter();
            Ok(CaptureState {
                length: capture.writer.get_mut().file.stream_position()?,
                name: capture.name.clone(),
                waiting: waiting
                    .map(|one| (one.time, one.direction, one.frame.to_vec()))
                    .collect(),
            })
        };
        let captures = self.links.iter_mut().map(|capture| {
            save(capture).map_err(|error: io::Error| CaptureError::Write {
                link: capture.name.clone(),
                source: pcap_file::PcapError::IoError(error),
            })
        });
        captures.collect()
    }

    /// Checks that the captures of `links` are the [saved](Self::save) ones.
    ///
    /// # Errors
    /// [`CaptureError::Others`].
    pub(crate) fn check(
        fabric: &Fabric,
        links: &[LinkId],
        saved: &[CaptureState],
    ) -> Result<(), CaptureError> {
        let names = links.iter().map(|&link| fabric.topology().link_name(link));
        if names.eq(saved.iter().map(|one| one.name.clone())) {
            return Ok(());
        }
        Err(CaptureError::Others)
    }

    /// Continues the captures of `links` from their [saved](Self::save) states.
    ///
    /// # Errors
    /// If the links differ, or a file cannot be continued.
    pub(crate) fn resume(
        directory: &RunDirectory,
        fabric: &mut Fabric,
        links: &[LinkId],
        saved: Vec<CaptureState>,
    ) -> Result<Self, CaptureError> {
        Self::check(fabric, links, &saved)?;
        let mut resumed = Vec::new();
        for (&link, state) in links.iter().zip(saved) {
            fabric.watch(link);
            let CaptureState {
                name,
                length,
                waiting,
            } = state;
            let file = directory.resume_file(&file_of(&name), length)?;
            let writer = open(file, true).and_then(|writer| name_directions(writer, &name));
            let mut writer = writer.map_err(|source| CaptureError::Write {
                link: name.clone(),
                source,
            })?;
            writer.get_mut().begun = false;
            let waiting = waiting
                .into_iter()
                .map(|(time, direction, frame)| Captured {
                    time,
                    link,
                    direction,
                    frame: frame.into(),
                });
            resumed.push(LinkCapture {
                link,
                name,
                writer,
                waiting: waiting.collect(),
            });
        }
        Ok(Self { links: resumed })
    }

    /// Takes over captured frames and writes frames before `settled`, the time before which no frame can be
    /// added.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write(&mut self, captured: Vec<Captured>, settled: Time) -> Result<(), CaptureError> {
        for frame in captured {
            if let Some(capture) = self
                .links
                .iter_mut()
                .find(|capture| capture.link == frame.link)
            {
                capture.waiting.push(frame);
            }
        }
        for capture in &mut self.links {
            capture.settle(settled)?;
        }
        Ok(())
    }
}

fn file_of(link: &str) -> String {
    format!("pcap/{link}.pcapng")
}

fn open(
    file: BufWriter<File>,
    begun: bool,
) -> Result<PcapNgWriter<CaptureFile>, pcap_file::PcapError> {
    PcapNgWriter::new(CaptureFile { file, begun })
}

/// A capture's two interfaces, one for each direction of its link.
fn name_directions(
    mut writer: PcapNgWriter<CaptureFile>,
    name: &str,
) -> Result<PcapNgWriter<CaptureFile>, pcap_file::PcapError> {
    for direction in ["up", "down"] {
        writer.write_pcapng_block(InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: SNAP_LENGTH,
            options: vec![
                InterfaceDescriptionOption::IfName(Cow::Owned(format!("{name} {direction}"))),
                InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            ],
        })?;
    }
    Ok(writer)
}

impl LinkCapture {
    fn settle(&mut self, settled: Time) -> Result<(), CaptureError> {
        self.waiting
            .sort_by_key(|frame| (frame.time, frame.direction));
        let ready = self.waiting.partition_point(|frame| frame.time < settled);
        for frame in self.waiting.drain(..ready) {
            let block = EnhancedPacketBlock {
                interface_id: u32::from(frame.direction == Direction::Down),
                timestamp: Duration::from_nanos(frame.time.as_ps() / 1000),
                original_len: frame.frame.length() as u32,
                data: Cow::Owned(frame.frame.to_vec()),
                options: Vec::new(),
            };
            self.writer
                .write_pcapng_block(block)
                .map_err(|source| CaptureError::Write {
                    link: self.name.clone(),
                    source,
                })?;
        }
        Ok(())
    }
}
