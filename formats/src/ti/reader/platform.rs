//! The speed of the hosts in a platform file next to a trace.
//!
//! An export has `platform.xml` in the trace's folder, and amounts of work at the speed of its hosts. The file is untrusted: it is
//! read in one pass, up to a limit. Used by `import` if the caller has no rate.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use belljar_files::open_input;
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

/// The file.
pub(super) const PLATFORM: &str = "platform.xml";
/// Most bytes that are read.
const LONGEST: u64 = 64 << 20;
/// Elements with a `speed` of hosts.
const HOSTS: [&str; 2] = ["host", "cluster"];
/// SimGrid's units, with the letter `f` for operations. A number without a unit is in operations.
const UNITS: [(&str, f64); 7] = [
    ("Pf", 1e15),
    ("Tf", 1e12),
    ("Gf", 1e9),
    ("Mf", 1e6),
    ("kf", 1e3),
    ("f", 1.0),
    ("", 1.0),
];

/// Floating-point operations per second of all hosts of the platform file in a folder.
///
/// # Errors
/// Describes why a file has no such speed. Without a file it is `Ok(None)`.
pub(super) fn speed(folder: &Path) -> Result<Option<f64>, String> {
    let path = folder.join(PLATFORM);
    if !path.exists() {
        return Ok(None);
    }
    let file = open_input(&path).map_err(|error| error.to_string())?;
    let mut found: Option<f64> = None;
    each_host(file, |speed| match found.replace(speed) {
        Some(before) if before != speed => {
            Err("its hosts have different speeds, and no rank's is known here".to_owned())
        }
        _ => Ok(()),
    })?;
    found
        .map(Some)
        .ok_or_else(|| "it has no host with a speed".to_owned())
}

/// Passes the speed of each host.
fn each_host(file: File, mut to: impl FnMut(f64) -> Result<(), String>) -> Result<(), String> {
    let mut reader = Reader::from_reader(BufReader::new(file.take(LONGEST)));
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        let event = reader.read_event_into(&mut buffer);
        match event.map_err(|error| error.to_string())? {
            Event::Start(element) | Event::Empty(element)
                if HOSTS.contains(&element.name().as_ref()) =>
            {
                to(speed_of(&element)?)?;
            }
            Event::Eof => return Ok(()),
            _ => {}
        }
    }
}

/// Returns an element's speed. SimGrid accepts several, of the host's states; the first is the one at the start.
fn speed_of(element: &BytesStart<'_>) -> Result<f64, String> {
    let attribute = element.try_get_attribute("speed");
    let attribute = attribute.map_err(|error| error.to_string())?;
    let attribute = attribute.ok_or("a host has no speed")?;
    let first = attribute.value.split(',').next().unwrap_or_default().trim();
    let number = UNITS.iter().find_map(|(unit, factor)| {
        let number: f64 = first.strip_suffix(unit)?.trim().parse().ok()?;
        Some(number * factor)
    });
    number
        .filter(|speed| speed.is_finite() && *speed > 0.0)
        .ok_or_else(|| format!("the speed {first:?} of a host is not a number of operations"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speed_in(text: &str) -> Result<Option<f64>, String> {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join(PLATFORM), text).expect("it is written");
        speed(folder.path())
    }

    #[test]
    fn hosts_of_one_speed_have_it() {
        let hosts = "<platform version='4.1'><zone id='a' routing='Full'>\
                     <host id='x' speed='2.5Gf'/><host id='y' speed='2500Mf,1Gf'></host></zone></platform>";
        assert_eq!(speed_in(hosts), Ok(Some(2.5e9)));
        let cluster = "<platform><cluster id='c' radical='0-3' speed='2600000000f'/></platform>";
        assert_eq!(speed_in(cluster), Ok(Some(2.6e9)));
    }

    #[test]
    fn a_file_without_one_speed_is_named_as_such() {
        let two = "<platform><host id='x' speed='1Gf'/><host id='y' speed='2Gf'/></platform>";
        assert!(speed_in(two).is_err_and(|error| error.contains("different speeds")));
        for bad in [
            "<platform/>",
            "<host id='x'/>",
            "<host speed='fast'/>",
            "<host speed='0f'/>",
            "<host speed='",
        ] {
            assert!(speed_in(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn no_file_is_no_error() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(speed(folder.path()), Ok(None));
    }
}
