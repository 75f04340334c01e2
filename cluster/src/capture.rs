//! Links as pcapng files that Wireshark opens, stamped in virtual time.

use std::borrow::Cow;
use std::fs::File;
use std::io::BufWriter;
use std::time::Duration;

use belljar_fabric::{Captured, Direction, Fabric, LinkId};
use belljar_sim::Time;
use pcap_file::DataLink;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};

use crate::run_directory::{RunDirectory, RunDirectoryError};

/// Why a capture could not be written.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file cannot be made.
    #[error(transparent)]
    Directory(#[from] RunDirectoryError),
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
pub struct Captures {
    links: Vec<LinkCapture>,
}

struct LinkCapture {
    link: LinkId,
    name: String,
    writer: PcapNgWriter<BufWriter<File>>,
    /// Frames that later ones may still precede.
    waiting: Vec<Captured>,
}

/// Timestamps in nanoseconds: 10 to the power of -9.
const NANOSECONDS: u8 = 9;
const SNAP_LENGTH: u32 = 0x4_0000;

impl Captures {
    /// Starts a capture for each of `links`.
    ///
    /// # Errors
    /// When a file cannot be made.
    pub fn start(
        directory: &RunDirectory,
        fabric: &mut Fabric,
        links: &[LinkId],
    ) -> Result<Self, CaptureError> {
        let mut started = Vec::new();
        for &link in links {
            fabric.watch(link);
            let name = fabric.topology().link_name(link);
            let file = directory.file(&format!("pcap/{name}.pcapng"))?;
            let writer = open(file, &name).map_err(|source| CaptureError::Write {
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

    /// Takes over captured frames and writes those before `settled`, the time
    /// before which no frame can be added any more.
    ///
    /// # Errors
    /// When a file cannot be written.
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

fn open(
    file: BufWriter<File>,
    name: &str,
) -> Result<PcapNgWriter<BufWriter<File>>, pcap_file::PcapError> {
    let mut writer = PcapNgWriter::new(file)?;
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
                original_len: frame.frame.len() as u32,
                data: Cow::Borrowed(&frame.frame),
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
