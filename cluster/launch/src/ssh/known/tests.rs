//! Files of known hosts against the format in `sshd(8)`, and arbitrary text.
use proptest::prelude::*;

use super::*;

/// Keys made by ssh-keygen, and one of them under hashed names.
const A: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIGqntxLE6WdAqneQY+JOMAWryYq4pbfi5j4JPWt1l6of";
const B: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIOpLv+rQYz6WS6lR/fHg/ZyxNYeCp8zmYIh+9EfqA95/";
const C: &str = "AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBGcPZUjazhKe9nC0abgzvAMdNme/sSC09N2saHiI8am8kTBwRCDafmFO0C28nfC8M84eQRN9vGFbOhSySc+USz8=";
const FINGERPRINT_OF_A: &str = "SHA256:OKz5JyuUVXJZBT/RMOmtS96Tc2vVYGZQ999yRzbBfH4";
const HASHED: &str = "|1|cF6V4s5EljfEllVoHf/5XoMfod4=|UPzCU5Ms62je0TA37ZuCRbsCXhk=";
const HASHED_WITH_PORT: &str = "|1|Iwo6/qnV11ge9MIQLgnXTEE+/7A=|vj4QO8FWiY/63BlxSbVrT5FSLJc=";

fn key(text: &str) -> Vec<u8> {
    STANDARD.decode(text).unwrap()
}

fn of(text: &str) -> KnownHosts {
    let mut known = KnownHosts::default();
    known.add("file", text);
    known
}

fn judge(text: &str, host: &str, shown: &str) -> Verdict {
    of(text).judge(host, &key(shown))
}

#[test]
fn keys_tell_their_type_and_fingerprint() {
    assert_eq!(kind(&key(A)), "ssh-ed25519");
    assert_eq!(kind(&key(C)), "ecdsa-sha2-nistp256");
    assert_eq!(kind(&[0, 0, 1, 0, 1]), "unreadable");
    assert_eq!(fingerprint(&key(A)), FINGERPRINT_OF_A);
}

#[test]
fn a_host_is_known_by_name_by_pattern_and_by_hash() {
    for (names, host) in [
        ("host", "host"),
        ("other,host", "host"),
        ("h?st", "host"),
        ("*.lab,!bad.lab", "good.lab"),
        ("[host]:2222", "[host]:2222"),
        (HASHED, "host"),
        (HASHED_WITH_PORT, "[host]:2222"),
    ] {
        let line = format!("# a comment\n\n{names} ssh-ed25519 {A} someone");
        assert_eq!(judge(&line, host, A), Verdict::Known, "{names}");
        assert_eq!(judge(&line, "elsewhere", A), Verdict::Unknown, "{names}");
    }
    let line = format!("*.lab,!bad.lab ssh-ed25519 {A}");
    assert_eq!(judge(&line, "bad.lab", A), Verdict::Unknown);
}

#[test]
fn another_key_of_the_type_is_a_change_and_of_another_type_is_unknown() {
    let text = format!("host ssh-ed25519 {A}\n");
    let changed = Verdict::Changed("file:1".to_owned());
    assert_eq!(judge(&text, "host", B), changed);
    assert_eq!(judge(&text, "host", C), Verdict::Unknown);
    let both = format!("{text}host ssh-ed25519 {B}");
    assert_eq!(judge(&both, "host", B), Verdict::Known);
}

#[test]
fn a_revoked_key_is_refused_for_everybody() {
    let text = format!("host ssh-ed25519 {A}\n@revoked other ssh-ed25519 {A}");
    let revoked = Verdict::Revoked("file:2".to_owned());
    assert_eq!(judge(&text, "host", A), revoked);
}

#[test]
fn what_cannot_be_read_makes_nobody_known() {
    for line in [
        format!("@cert-authority host ssh-ed25519 {A}"),
        format!("@unheard-of host ssh-ed25519 {A}"),
        format!("|1|bad|bad ssh-ed25519 {A}"),
        format!("|2|a|b ssh-ed25519 {A}"),
        format!("host ssh-ed25519 {}", &A[1..]),
        "host ssh-ed25519".to_owned(),
        "@revoked".to_owned(),
    ] {
        assert_eq!(judge(&line, "host", A), Verdict::Unknown, "{line}");
    }
}

#[test]
fn types_known_for_a_host_are_told() {
    let text = format!("{HASHED} ssh-ed25519 {A}\nhost ecdsa-sha2-nistp256 {C}\nx ssh-dss {A}");
    assert_eq!(
        of(&text).kinds("host"),
        ["ssh-ed25519", "ecdsa-sha2-nistp256"]
    );
}

proptest! {
    #[test]
    fn any_text_is_read(text in "[@|1!*,a \n=/A-C]{0,60}", shown in proptest::collection::vec(any::<u8>(), 0..20)) {
        prop_assert_ne!(of(&text).judge("host", &shown), Verdict::Changed(String::new()));
    }
}
