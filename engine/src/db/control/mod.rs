//! The control socket: a process that has a database open answers others of the same user, who ask
//! for its statistics or have it collect, compact or make a checkpoint. `docs/control.md` describes
//! the protocol; [`request`] reads what is asked, [`answer`] does it, [`server`] has the threads.
//!
//! Nobody depends on it: a database whose socket can't be made opens all the same.

mod answer;
pub mod recent;
pub(crate) mod request;
mod server;
#[cfg(test)]
mod tests;

use crate::base::error::Error;
use crate::db::Core;
use crate::events::Event;
use crate::version::files::names;
pub(crate) use server::ControlServer;
use std::sync::Arc;

/// The words that begin every request and every answer: the protocol and its version.
pub(crate) const PROTOCOL: &str = "cleave/1";

impl Core {
    /// Begins to answer at the control socket, if the options ask for it and the system has such
    /// sockets. A failure is an event and nothing else.
    pub(crate) fn open_control_socket(self: &Arc<Self>) {
        let Some(sockets) = &self.env.sockets else { return };
        if !self.options.control_socket {
            return;
        }
        let path = self.dir.join(names::CONTROL);
        // The lock on the directory is held, so a socket that is there is one that a killed process
        // left. A crash from here on leaves one, too.
        let served =
            sockets.listen(&path).and_then(|listener| ControlServer::start(self, listener));
        match served {
            Ok(server) => {
                let is_first = self.control.set(server).is_ok();
                assert!(is_first, "a database is opened once");
            }
            Err(error) => {
                let error = Error::io("make the control socket", &path, error);
                self.emit(Event::ControlSocketFailed { error });
            }
        }
    }
}
