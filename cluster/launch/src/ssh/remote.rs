//! Preparation of a host: copies the program if it is missing.
//!
//! The program is stored under the hash of its content. It is complete or absent, even if others copy it
//! at the same time. Output of the user's start files is skipped. Called by [`Ssh`](super::Ssh).

use std::io::{self, Read, Write};

use sha2::{Digest, Sha256};
use ssh2::Session;

use crate::LaunchError;
use crate::quote::quoted;

/// Precedes the agent's process id on its first line.
pub(super) const PROCESS_ID: &str = "belljar-agent ";
/// Precedes the answer for [`provide`], as start files of the user's shell may print, too.
const ANSWER: &str = "belljar-agents ";
/// Most bytes that are read of a command's output.
const MOST_PRINTED: u64 = 64 << 10;

/// The result of a command on the host.
#[derive(Debug)]
pub(super) struct Done {
    status: i32,
    stdout: String,
    stderr: String,
}

/// Runs `script` by the host's `sh`, with `input`.
pub(super) fn run(session: &Session, script: &str, input: &[u8]) -> io::Result<Done> {
    let mut channel = session.channel_session()?;
    channel.exec(&format!("exec /bin/sh -c {}", quoted(script)))?;
    // A script that ends early reports the reason itself and leaves its input unread.
    let written = channel.write_all(input).and_then(|()| channel.flush());
    channel.send_eof()?;
    let text = |stream| -> io::Result<String> {
        let mut bytes = Vec::new();
        let mut from = channel.stream(stream).take(MOST_PRINTED);
        from.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let (stdout, stderr) = (text(0)?, text(ssh2::EXTENDED_DATA_STDERR)?);
    channel.wait_close()?;
    let status = channel.exit_status()?;
    if status == 0 {
        written?;
    }
    Ok(Done {
        status,
        stdout,
        stderr,
    })
}

/// Ensures that the host has `program`, and returns its path. Other runs may do the same at once: the file
/// appears under its name complete.
pub(super) fn provide(
    session: &Session,
    host: &str,
    program: &[u8],
) -> Result<String, LaunchError> {
    let failed = |reason: String| LaunchError::Remote {
        host: host.to_owned(),
        action: "put the agent's program into ~/.cache/belljar/agents",
        reason,
    };
    let hash: String = Sha256::digest(program)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let run = |script: &str, input: &[u8]| {
        let done = run(session, script, input).map_err(|error| failed(error.to_string()))?;
        if done.status == 0 {
            return Ok(done.stdout);
        }
        let said = format!("{} (status {})", done.stderr.trim(), done.status);
        Err(failed(said))
    };
    let answer = run(&looked_for(&hash), &[])?;
    let answer = answer.lines().find_map(|line| line.strip_prefix(ANSWER));
    let told = answer.and_then(|line| line.split_once(' '));
    let (state, folder) = told.ok_or_else(|| failed("its shell prints something else".into()))?;
    if state != PRESENT {
        run(&taken_in(&hash, folder, state), program)?;
    }
    Ok(format!("{folder}/belljar-{hash}"))
}

const PRESENT: &str = "present";

/// A script that reports whether the program exists, otherwise the folder and a name for a new file. It
/// removes files of interrupted copies after a day.
fn looked_for(hash: &str) -> String {
    format!(
        "umask 077
cd && mkdir -p .cache/belljar/agents && cd .cache/belljar/agents || exit 1
if test -x belljar-{hash}; then state={PRESENT}; else
  find . -name 'incoming-*' -mtime +0 -exec rm -f '{{}}' +
  state=$(mktemp incoming-XXXXXXXX) || exit 1
fi
echo \"{ANSWER}$state $(pwd)\""
    )
}

/// A script that receives the program through the file `incoming`. A broken connection looks like an end
/// of input, so the received data is verified.
fn taken_in(hash: &str, folder: &str, incoming: &str) -> String {
    format!(
        "cd {} || exit 1
in={}
cat >\"$in\" && echo \"{hash}  $in\" | sha256sum --check --status &&
  chmod 0755 \"$in\" && mv -f \"$in\" belljar-{hash} && exit 0
rm -f \"$in\"
echo 'what arrived is not what was sent' >&2
exit 1",
        quoted(folder),
        quoted(incoming)
    )
}

/// The command that prints its process id and then becomes the agent.
pub(super) fn agent_command(path: &str, arguments: &[String]) -> String {
    let script = format!("echo \"{PROCESS_ID}$$\"; exec \"$0\" \"$@\"");
    let mut command = format!("exec /bin/sh -c {} {}", quoted(&script), quoted(path));
    for argument in arguments {
        command.push(' ');
        command.push_str(&quoted(argument));
    }
    command
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn shell(script: &str) -> String {
        let output = Command::new("/bin/sh").args(["-c", script]).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    }

    #[test]
    fn the_agent_tells_its_process_and_gets_its_arguments() {
        let arguments = ["-c", "echo $$; printf '%s|' \"$@\"", "x", "it's", "a b"];
        let arguments = arguments.map(str::to_owned);
        let printed = shell(&agent_command("/bin/sh", &arguments));
        let lines: Vec<&str> = printed.lines().collect();
        assert_eq!(lines[0].strip_prefix(PROCESS_ID), Some(lines[1]));
        assert_eq!(lines[2], "it's|a b|");
    }
}
