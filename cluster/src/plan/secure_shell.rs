//! A secure shell server on every node, for images that have OpenSSH's.
//!
//! Node 0 reaches all others, and each itself, as root without a prompt, as on a cluster whose users have set up
//! keys. The keys are the same in every run and no secret: no guest can be reached from outside. Decided when
//! plans are made; the run disk brings the files, and init starts the server.

use std::collections::BTreeMap;
use std::io;

use ssh_key::private::{Ed25519Keypair, KeypairData};
use ssh_key::{LineEnding, PrivateKey};

use crate::scripts::calls;
use belljar_workload::{GuestRoot, PROGRAMS};

/// Clients by which programs reach other nodes.
const CLIENTS: [&str; 4] = ["ssh", "scp", "sftp", "rsync"];
/// Folder of the files on nodes.
const FOLDER: &str = "/run/belljar/ssh";
/// The client's settings, in `/root`.
const CLIENT_SETTINGS: &str = ".ssh/config";

/// The server of an image, and its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecureShell {
    /// The server's path in the guest.
    server: String,
    /// `PATH` of commands that it starts, if it is not the usual one.
    path: Option<String>,
    /// True if the client gets settings for the keys; false if the image or the scenario has settings.
    tells_client: bool,
}

/// A file for nodes: its path on the run disk, its permissions and its text.
pub(crate) type NodeFile = (String, u32, String);

impl SecureShell {
    /// The server of the tree `root`, if the tree has it and its client, and the command or a script calls a
    /// client.
    pub(crate) fn wanted(
        root: &GuestRoot,
        command: &str,
        files: &BTreeMap<String, Vec<u8>>,
        environment: &BTreeMap<String, String>,
    ) -> Option<Self> {
        if !CLIENTS.iter().any(|name| calls(command, files, name)) {
            return None;
        }
        let server = Self::server(root)?;
        let settings = format!("/root/{CLIENT_SETTINGS}");
        let has_settings = files.contains_key(CLIENT_SETTINGS) || root.real(&settings).is_some();
        Some(Self {
            server,
            path: environment.get("PATH").cloned(),
            tells_client: !has_settings,
        })
    }

    /// The path of OpenSSH's server in `root`; `None` without its client.
    pub(crate) fn server(root: &GuestRoot) -> Option<String> {
        root.program("ssh")?;
        root.program("sshd")
    }

    /// The files for the run disk.
    ///
    /// # Errors
    /// If keys cannot be written, which no input causes.
    pub(crate) fn files(&self) -> io::Result<Vec<NodeFile>> {
        let (host, user) = (key(1)?, key(2)?);
        let public = |key: &PrivateKey| key.public_key().to_openssh().map_err(io::Error::other);
        let private = |key: &PrivateKey| {
            let text = key.to_openssh(LineEnding::LF).map_err(io::Error::other)?;
            Ok::<_, io::Error>(text.as_str().to_owned())
        };
        let mut files = vec![
            ("ssh/server".to_owned(), 0o644, format!("{}\n", self.server)),
            ("ssh/sshd_config".to_owned(), 0o644, self.server_settings()),
            ("ssh/host_key".to_owned(), 0o600, private(&host)?),
            ("ssh/user_key".to_owned(), 0o600, private(&user)?),
            (
                "ssh/authorized_keys".to_owned(),
                0o644,
                public(&user)? + "\n",
            ),
            (
                "ssh/known_hosts".to_owned(),
                0o644,
                format!("* {}\n", public(&host)?),
            ),
        ];
        if self.tells_client {
            files.push((format!("files/{CLIENT_SETTINGS}"), 0o600, client_settings()));
        }
        Ok(files)
    }

    fn server_settings(&self) -> String {
        let usual = PROGRAMS.join(":");
        let path = self.path.as_deref().unwrap_or(&usual);
        format!(
            "HostKey {FOLDER}/host_key\n\
             AuthorizedKeysFile {FOLDER}/authorized_keys .ssh/authorized_keys\n\
             StrictModes no\n\
             PermitRootLogin yes\n\
             PidFile none\n\
             UseDNS no\n\
             AcceptEnv *\n\
             SetEnv PATH=\"{}\"\n\
             Subsystem sftp internal-sftp\n",
            path.replace(['"', '\n'], "")
        )
    }
}

fn client_settings() -> String {
    format!(
        "Host *\n\
         \tIdentityFile {FOLDER}/user_key\n\
         \tUserKnownHostsFile {FOLDER}/known_hosts\n\
         \tLogLevel ERROR\n"
    )
}

/// The key of this number.
fn key(number: u8) -> io::Result<PrivateKey> {
    let pair = Ed25519Keypair::from_seed(&[number; 32]);
    let key = PrivateKey::new(KeypairData::Ed25519(pair), "belljar");
    key.map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(paths: &[&str]) -> GuestRoot {
        let mut root = GuestRoot::default();
        for path in paths {
            root.add(path, b"");
        }
        root
    }

    fn wanted(root: &GuestRoot, command: &str) -> Option<SecureShell> {
        SecureShell::wanted(root, command, &BTreeMap::new(), &BTreeMap::new())
    }

    #[test]
    fn it_is_there_where_the_image_has_it_and_somebody_calls_it() {
        let both = with(&["/usr/bin/ssh", "/usr/sbin/sshd"]);
        let found = wanted(&both, "scp a node1:").unwrap();
        assert_eq!(found.server, "/usr/sbin/sshd");
        assert!(found.tells_client);
        assert_eq!(wanted(&both, "mpirun ./a"), None);
        assert_eq!(wanted(&with(&["/usr/bin/ssh"]), "ssh node1 date"), None);
        assert_eq!(wanted(&with(&["/usr/sbin/sshd"]), "ssh node1 date"), None);
        let own = with(&["/usr/bin/ssh", "/usr/sbin/sshd", "/root/.ssh/config"]);
        let own = wanted(&own, "ssh node1 date").unwrap();
        assert!(
            own.files()
                .unwrap()
                .iter()
                .all(|(name, ..)| name.starts_with("ssh/"))
        );
    }

    #[test]
    fn keys_fit_each_other_and_are_the_same_in_every_run() {
        let root = with(&["/usr/bin/ssh", "/usr/sbin/sshd"]);
        let files = wanted(&root, "ssh node1 date").unwrap().files().unwrap();
        let again = wanted(&root, "ssh node1 date").unwrap().files().unwrap();
        assert_eq!(files, again);
        let text = |name: &str| {
            let mut found = files.iter().filter(|(own, ..)| own == name);
            let (_, mode, text) = found.next().unwrap();
            (*mode, text.clone())
        };
        for (private, public) in [("host_key", "known_hosts"), ("user_key", "authorized_keys")] {
            let (mode, private) = text(&format!("ssh/{private}"));
            assert_eq!(mode, 0o600);
            let private = PrivateKey::from_openssh(private).unwrap();
            let public_of = private.public_key().to_openssh().unwrap();
            assert!(
                text(&format!("ssh/{public}")).1.contains(&public_of),
                "{public}"
            );
        }
        assert!(
            text("files/.ssh/config")
                .1
                .contains("/run/belljar/ssh/user_key")
        );
        assert!(
            text("ssh/sshd_config")
                .1
                .contains("SetEnv PATH=\"/usr/local/bin:")
        );
    }
}
