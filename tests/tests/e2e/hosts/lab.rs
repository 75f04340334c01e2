//! The lab has the properties that other tests rely on.

use std::fs;
use std::time::Duration;

use belljar_tests::lab::{Lab, round_trip, wait_for};

const SOON: Duration = Duration::from_secs(20);

#[test]
fn hosts_are_apart_and_hear_each_other_until_a_cable_is_pulled() {
    let Some(lab) = Lab::start(2) else { return };
    assert_eq!(lab.host(1).run("hostname").stdout, "h1\n");
    let reaches = || lab.head().run("ssh -o ConnectTimeout=1 h0 true").code == Some(0);
    assert!(reaches());
    lab.cut_link(0);
    assert!(!reaches());
    lab.heal_link(0);
    assert!(wait_for(SOON, || reaches().then_some(())).is_some());
    // No host outside is reachable.
    let routes = lab.head().run("ip route").stdout;
    assert!(!routes.contains("default"), "{routes}");
}

#[test]
fn a_frozen_host_stands_still_and_one_without_power_is_gone() {
    let Some(lab) = Lab::start(2) else { return };
    let file = lab.shared().join("ticks");
    let script = format!(
        "(while :; do echo >>{}; sleep 0.02; done) </dev/null >/dev/null 2>&1 &",
        file.display()
    );
    lab.host(0).run(&script);
    let length = || fs::metadata(&file).map_or(0, |file| file.len());
    let grows = || {
        let before = length();
        wait_for(SOON / 10, || (length() > before).then_some(())).is_some()
    };
    assert!(grows());
    lab.host(0).freeze();
    assert!(!grows());
    lab.host(0).thaw();
    assert!(grows());
    lab.power_cut(0);
    let gone = || lab.host(0).processes().is_empty().then_some(());
    assert!(wait_for(SOON, gone).is_some());
    let down = || {
        let states = lab.head().run("sinfo --noheader --format='%t %n'").stdout;
        states.contains("down* h0").then_some(())
    };
    assert!(wait_for(SOON, down).is_some(), "{}", lab.logs());
}

#[test]
fn frames_are_delayed_where_the_kernel_can() {
    let Some(lab) = Lab::start(1) else { return };
    if let Err(reason) = lab.delay(0, 50_000) {
        eprintln!("SKIPPED: {reason}");
        return;
    }
    let ping = lab.head().run("ping -c 1 h0").stdout;
    let time = ping
        .split("time=")
        .nth(1)
        .and_then(|rest| rest.split(' ').next());
    assert!(
        time.is_some_and(|time| time.parse().is_ok_and(|time: f64| time >= 50.0)),
        "{ping}"
    );
}

#[test]
fn nothing_is_left_of_a_lab() {
    let Some(lab) = Lab::start(1) else { return };
    let shared = lab.shared().to_owned();
    let what = shared.to_str().expect("a plain path").to_owned();
    let ids: Vec<u32> = [lab.head(), lab.host(0)]
        .iter()
        .flat_map(|host| host.processes())
        .map(|process| process.id)
        .collect();
    // munged, sshd, and Slurm's daemon on each, and their helper processes.
    assert!(ids.len() >= 8, "{ids:?}");
    drop(lab);
    let left = |id: &u32| {
        let words = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&words).contains(&what)
    };
    assert_eq!(ids.iter().find(|id| left(id)), None);
    let mounts = fs::read_to_string("/proc/self/mounts").expect("there is /proc");
    assert!(!mounts.contains(&what), "{mounts}");
    assert!(!shared.exists());
}

#[test]
fn a_wire_is_as_late_as_it_is_asked_to_be_until_it_is_dropped() {
    const LATE: Duration = Duration::from_millis(20);
    let Some(lab) = Lab::start(2) else { return };
    // A busy machine may delay or lose datagrams of any of them, but not of all.
    let round_trip = || round_trip(lab.host(0), lab.host(1), 11).ok();
    let once_below = |most| wait_for(SOON, || round_trip().filter(|trip| *trip < most));
    assert!(once_below(LATE).is_some());
    let wire = lab.wire(LATE).expect("the kernel has TUN devices");
    let late = once_below(4 * LATE).expect("as late as it is asked to be, and not more");
    assert!(late >= 2 * LATE, "{late:?}");
    // Large packets arrive, too, as does all other data.
    let copied = lab.head().run("head -c 100000 /dev/zero | ssh h1 wc -c");
    assert_eq!(copied.stdout, "100000\n", "{}", copied.stderr);
    drop(wire);
    assert!(once_below(LATE).is_some());
}
