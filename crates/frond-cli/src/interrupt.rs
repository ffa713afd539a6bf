//! Ctrl-C, SIGTERM and SIGHUP: the command ends as soon as it can. A second signal ends it
//! immediately.

use std::{
    io::{self, BufRead, Read},
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, sync_channel},
    },
    time::Duration,
};

use crate::fail::{Fail, INTERRUPTED, Result, to_stderr};

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Catches the signals from now on. On the first one, prints `says`.
pub fn catch(says: &'static str) -> Result {
    set_handler(move || {
        // Signals are handled by one thread, one after the other.
        if is_requested() {
            std::process::exit(INTERRUPTED.into());
        }
        to_stderr(says);
        // Set afterwards: otherwise the command could end before the line is printed.
        REQUESTED.store(true, Ordering::Relaxed);
    })
}

/// Prints `says` on a signal, and ends the command, which must not have anything to finish.
pub fn exit_on_signal(says: &'static str) -> Result {
    set_handler(move || {
        to_stderr(says);
        std::process::exit(INTERRUPTED.into());
    })
}

fn set_handler(handler: impl FnMut() + 'static + Send) -> Result {
    ctrlc::set_handler(handler).map_err(|why| Fail::Error(format!("cannot catch signals: {why}")))
}

/// True after a signal.
pub fn is_requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

/// An input whose reader may have to wait, such as a pipe. A signal ends the wait: reading then
/// fails. A thread reads ahead by a few pieces; it ends with the process.
pub struct Pipe {
    pieces: Receiver<io::Result<Vec<u8>>>,
    piece: Vec<u8>,
    /// Bytes of the piece that were consumed.
    at: usize,
}

const PIECE_BYTES: usize = 64 << 10;

impl Pipe {
    /// Starts reading what `open` returns. Opening may wait, too: a FIFO is opened only once a
    /// program opens it for writing.
    pub fn new<R: Read>(open: impl FnOnce() -> io::Result<R> + Send + 'static) -> Self {
        let (sender, pieces) = sync_channel(4);
        std::thread::spawn(move || {
            let mut input = match open() {
                Ok(input) => input,
                // After a signal there is no receiver.
                Err(why) => return drop(sender.send(Err(why))),
            };
            loop {
                let mut piece = vec![0; PIECE_BYTES];
                let read = match input.read(&mut piece) {
                    Err(why) if why.kind() == io::ErrorKind::Interrupted => continue,
                    read => read,
                };
                let is_last = !matches!(read, Ok(1..));
                let piece = read.map(|bytes| {
                    piece.truncate(bytes);
                    piece
                });
                if sender.send(piece).is_err() || is_last {
                    break;
                }
            }
        });
        Self { pieces, piece: Vec::new(), at: 0 }
    }
}

impl BufRead for Pipe {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.at == self.piece.len() {
            if is_requested() {
                return Err(io::Error::other("interrupted"));
            }
            match self.pieces.recv_timeout(Duration::from_millis(50)) {
                Ok(piece) => (self.piece, self.at) = (piece?, 0),
                Err(RecvTimeoutError::Timeout) => continue,
                // The last piece was the end of the input, or an error.
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.piece.is_empty() {
                break;
            }
        }
        Ok(&self.piece[self.at..])
    }

    fn consume(&mut self, bytes: usize) {
        self.at += bytes;
    }
}

impl Read for Pipe {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let taken = self.fill_buf()?.read(out)?;
        self.consume(taken);
        Ok(taken)
    }
}
