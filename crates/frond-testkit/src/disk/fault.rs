//! Faults: which call goes wrong, and how.

use std::time::Duration;

/// What a call requests from the disk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs)] // the names are those of the traits
pub enum CallKind {
    Open,
    Create,
    Exists,
    List,
    CreateDir,
    Rename,
    Remove,
    SyncDir,
    FreeBytes,
    Read,
    Write,
    Len,
    SetLen,
    Allocate,
    Punch,
    SyncData,
    SyncAll,
    Lock,
}

impl CallKind {
    /// True if the call can change what a crash leaves; crashes are tried at these calls.
    pub fn is_change(self) -> bool {
        use CallKind::*;
        matches!(
            self,
            Create
                | CreateDir
                | Rename
                | Remove
                | SyncDir
                | Write
                | SetLen
                | Allocate
                | Punch
                | SyncData
                | SyncAll
        )
    }

    /// True for syncs of files and directories.
    pub fn is_sync(self) -> bool {
        matches!(self, CallKind::SyncData | CallKind::SyncAll | CallKind::SyncDir)
    }

    /// True if the call may need space.
    pub fn takes_space(self) -> bool {
        use CallKind::*;
        matches!(self, Create | CreateDir | Rename | Write | SetLen | Allocate)
    }
}

/// Which calls a fault strikes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// The n-th call of all, from 0.
    Call(u64),
    /// The n-th call of a kind, from 0.
    Kind(CallKind, u64),
    /// The n-th call that is a change, from 0.
    Change(u64),
    /// The n-th sync of any kind, from 0.
    Sync(u64),
}

/// What a failed sync leaves behind (F11).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SyncFailure {
    /// The page cache keeps the new bytes and treats them as clean; the medium never gets them.
    CacheKeepsNew,
    /// The page cache returns to what the medium has.
    CacheReverts,
    /// The error is reported once; the bytes stay dirty, and the next sync succeeds.
    ErrorOnce,
}

/// What goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// EIO. A sync behaves as [`SyncFailure::CacheKeepsNew`].
    Eio,
    /// ENOSPC, at calls that may need space and at syncs.
    Enospc,
    /// Half of the transfer is done, then EIO.
    Short,
    /// A sync fails in this way; other calls are not affected.
    Sync(SyncFailure),
    /// A write is acknowledged and never reaches anything.
    LostWrite,
    /// A write lands this many bytes away (clamped at 0); its own place keeps what it had.
    Misdirect(i64),
    /// Half of a write reaches the medium, and it is acknowledged.
    TornWrite,
    /// A read returns what the medium held before the last sync.
    StaleRead,
    /// A read returns one bit flipped: this one, modulo the length.
    FlipRead(u64),
    /// The call takes this long.
    Slow(Duration),
}

impl FaultKind {
    /// True if this fault can strike this call.
    pub fn strikes(self, call: CallKind) -> bool {
        match self {
            FaultKind::Eio | FaultKind::Slow(_) => !matches!(call, CallKind::Len),
            FaultKind::Enospc => call.takes_space() || call.is_sync(),
            FaultKind::Short => matches!(call, CallKind::Read | CallKind::Write),
            FaultKind::Sync(_) => call.is_sync(),
            FaultKind::LostWrite | FaultKind::Misdirect(_) | FaultKind::TornWrite => {
                call == CallKind::Write
            }
            FaultKind::StaleRead | FaultKind::FlipRead(_) => call == CallKind::Read,
        }
    }
}

/// A planned fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Which call.
    pub when: When,
    /// What happens.
    pub kind: FaultKind,
    /// Whether it strikes from then on, at every call that it can strike.
    pub sticky: bool,
}

impl Fault {
    /// A fault that strikes once.
    pub fn once(when: When, kind: FaultKind) -> Self {
        Self { when, kind, sticky: false }
    }

    /// A fault that strikes from then on.
    pub fn from_then_on(when: When, kind: FaultKind) -> Self {
        Self { when, kind, sticky: true }
    }
}
