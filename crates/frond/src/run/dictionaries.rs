//! The dictionary that the leaves of a tree are written under: which one, and when it is made anew.
//!
//! While a leaf is written some of what its codec is given is kept, spread over it. When the leaf ends, three in four of
//! these blocks teach a dictionary and the others judge it, in several lengths and against having none. It serves the
//! leaves after it. What was found holds, be it that none is worth it, until leaves take a tenth more than the first
//! one after that did; and each time it is found anew only after twice as many leaves. A leaf that is merged keeps the
//! dictionary that it has, or none of its blocks could be carried over; one that has none takes the latest.
//!
//! Invariants
//! 1. What is learnt never says how a block is read: only its run does.
//! 2. Training is at most logarithmic in the leaves of a tree that is open.
//!
//! Threads: all; the lock is held for some comparisons, twice a run.

use crate::{
    block::{Codec, Dictionary, DictionaryEncoder, train},
    sync::{Arc, Mutex},
};

/// Lengths that are tried, longest first. Shorter ones are the ends of the longest.
const LENGTHS: [usize; 3] = [16 << 10, 8 << 10, 4 << 10];
/// Most blocks that are kept of a leaf, and how long each may be.
const SAMPLES_MAX: usize = 24;
const SAMPLE_BYTES_MAX: usize = 64 << 10;
/// One in so many blocks judges, and does not teach.
const JUDGES_ONE_IN: usize = 4;
/// Fewest samples that are worth learning from, and the shortest leaf: a short one says nothing of long ones.
const SAMPLES_MIN: usize = 12;
const TRAINING_BYTES_MIN: u64 = 128 << 10;
/// What is saved has to be one in so many bytes at least: a block under a dictionary takes a third longer to decode.
const SAVED_ONE_IN: u64 = 32;
/// Leaves after which a tree may train for the second time.
const PAUSE: u32 = 8;
/// What a dictionary is taken to save of which nothing is known but that somebody chose it: one in so many.
const SAVES_ONE_IN: f64 = 16.0;

/// What a tree knows of its dictionary.
#[derive(Debug, Default)]
pub(super) struct Dictionaries(Mutex<Learnt>);

#[derive(Debug, Default)]
struct Learnt {
    latest: Option<Chosen>,
    /// What the first leaf took, of its rows as they are, that was written with what was found last.
    promise: Option<f64>,
    /// Leaves since; none if nothing was ever looked for.
    leaves: Option<u32>,
    /// Leaves before it may be looked for again.
    pause: u32,
}

/// A dictionary that was worth it.
#[derive(Clone, Debug)]
struct Chosen {
    dictionary: Arc<Dictionary>,
    /// What it saves of what blocks take without it.
    saves: f64,
}

/// What a leaf is written under, and what it is to teach.
#[derive(Debug, Default)]
pub(super) struct UnderDictionary {
    chosen: Option<Chosen>,
    /// Made for the first block.
    encoder: Option<DictionaryEncoder>,
    samples: Option<Box<Samples>>,
}

/// What the codec was given of some blocks.
#[derive(Debug)]
struct Samples {
    kept: Vec<Vec<u8>>,
    /// One in so many blocks is kept.
    stride: usize,
    blocks: usize,
}

impl UnderDictionary {
    /// Of a run that may carry blocks under this dictionary, if any.
    pub fn base(dictionary: Option<&Arc<Dictionary>>) -> Self {
        let known = |dictionary: &Arc<Dictionary>| Chosen {
            dictionary: dictionary.clone(),
            saves: 1.0 / SAVES_ONE_IN,
        };
        Self { chosen: dictionary.map(known), ..Self::default() }
    }

    /// The dictionary.
    pub fn dictionary(&self) -> Option<&Arc<Dictionary>> {
        self.chosen.as_ref().map(|chosen| &chosen.dictionary)
    }

    /// The same for encoding.
    pub fn encoder(&mut self) -> Option<&DictionaryEncoder> {
        if self.encoder.is_none() {
            self.encoder = DictionaryEncoder::new(self.dictionary()?.clone());
        }
        self.encoder.as_ref()
    }

    /// Whether blocks that take so many bytes under the dictionary would take less with it away.
    pub fn is_in_vain(&self, bytes: u64) -> bool {
        self.chosen.as_ref().is_some_and(|Chosen { dictionary, saves }| {
            bytes as f64 * saves / (1.0 - saves) < dictionary.to_disk().len() as f64
        })
    }

    /// Whether what the codec is given of the next block is wanted.
    pub fn wants_sample(&mut self) -> bool {
        self.samples.as_mut().is_some_and(|samples| {
            samples.blocks += 1;
            samples.blocks.is_multiple_of(samples.stride)
        })
    }

    /// Takes it.
    pub fn keep(&mut self, given: &[u8]) {
        let Some(samples) = self.samples.as_mut().filter(|_| given.len() <= SAMPLE_BYTES_MAX)
        else {
            return;
        };
        if samples.kept.len() >= SAMPLES_MAX {
            // Every other one is enough of what there was so far.
            let mut number = 0;
            samples.kept.retain(|_| {
                number += 1;
                number % 2 == 0
            });
            samples.stride *= 2;
        }
        samples.kept.push(given.to_vec());
    }
}

impl Dictionaries {
    /// What a run under this codec is written under, that may carry blocks of one that is `base`.
    pub fn begin(&self, codec: Codec, base: UnderDictionary) -> UnderDictionary {
        if codec != Codec::UNDER_DICTIONARY {
            return base;
        }
        let mut learnt = self.0.lock().unwrap();
        let samples = learnt.may_be_due().then(Box::default);
        let chosen = match base.chosen {
            Some(base) => Some(learnt.same(base)),
            None => learnt.latest.clone(),
        };
        UnderDictionary { chosen, encoder: None, samples }
    }

    /// The dictionary of a run that is opened: that of the tree, if it is the same, so that there is one of it.
    pub fn share(&self, dictionary: Arc<Dictionary>) -> Arc<Dictionary> {
        let chosen = Chosen { dictionary, saves: 1.0 / SAVES_ONE_IN };
        self.0.lock().unwrap().same(chosen).dictionary
    }

    /// Whether it is the one that the tree holds.
    pub fn holds(&self, dictionary: &Arc<Dictionary>) -> bool {
        let learnt = self.0.lock().unwrap();
        learnt.latest.as_ref().is_some_and(|latest| Arc::ptr_eq(&latest.dictionary, dictionary))
    }

    /// A leaf ended, whose rows are so long and take so many bytes. Says whether it is worth training now, and
    /// with what.
    pub fn learn(&self, under: UnderDictionary, row_bytes: u64, bytes: u64) -> Option<Training> {
        if bytes < TRAINING_BYTES_MIN {
            return None;
        }
        let mut learnt = self.0.lock().unwrap();
        let latest = learnt.latest.as_ref().map(|latest| &latest.dictionary);
        let is_latest = match (latest, under.dictionary()) {
            (Some(latest), Some(its)) => Arc::ptr_eq(latest, its),
            (None, None) => true,
            _ => false,
        };
        // Runs that keep an older one say nothing of the latest.
        let is_due = is_latest && learnt.is_due(bytes as f64 / row_bytes.max(1) as f64);
        let samples = under.samples.filter(|samples| samples.kept.len() >= SAMPLES_MIN)?;
        is_due.then_some(Training { samples: *samples, bytes })
    }

    /// What came of it.
    pub fn learnt(&self, found: Found) {
        let mut learnt = self.0.lock().unwrap();
        learnt.pause = (learnt.pause * 2).max(PAUSE);
        (learnt.latest, learnt.promise, learnt.leaves) = (found.0, None, Some(0));
    }
}

impl Learnt {
    /// The latest, if it is the same as that. A tree that knows none, since the store was just opened, takes that one.
    fn same(&mut self, chosen: Chosen) -> Chosen {
        if self.leaves.is_none() {
            (self.latest, self.leaves) = (Some(chosen.clone()), Some(0));
            self.pause = PAUSE;
        }
        match &self.latest {
            Some(latest) if latest.dictionary == chosen.dictionary => latest.clone(),
            _ => chosen,
        }
    }

    /// Whether a leaf that begins now may be trained from.
    fn may_be_due(&self) -> bool {
        self.leaves
            .is_none_or(|leaves| self.promise.is_some() && leaves.saturating_add(1) >= self.pause)
    }

    /// Counts a leaf, which took so much of its rows; whether it is to be trained from.
    fn is_due(&mut self, took: f64) -> bool {
        let Some(leaves) = &mut self.leaves else { return true };
        *leaves = leaves.saturating_add(1);
        match self.promise {
            None => {
                self.promise = Some(took);
                false
            }
            Some(promise) => took > promise * 1.1 && *leaves >= self.pause,
        }
    }
}

impl Default for Samples {
    fn default() -> Self {
        Self { kept: Vec::new(), stride: 1, blocks: 0 }
    }
}

/// What is to be trained from: takes most of the time that writing a leaf takes, under no lock.
pub(super) struct Training {
    samples: Samples,
    /// What the leaf takes.
    bytes: u64,
}

/// What training gave.
pub(super) struct Found(Option<Chosen>);

impl Training {
    /// Makes the dictionary that is worth most, if any is worth it.
    pub fn train(self) -> Found {
        let is_judge = |number: usize| number % JUDGES_ONE_IN == JUDGES_ONE_IN - 1;
        let of = |judges: bool| {
            let kept = self.samples.kept.iter().enumerate();
            kept.filter(move |(number, _)| is_judge(*number) == judges).map(|(_, given)| &given[..])
        };
        let mut encoded = Vec::new();
        let mut judge = |under: Option<&DictionaryEncoder>| -> usize {
            let bytes = of(true).map(|given| {
                match Codec::UNDER_DICTIONARY.encode_under(under, given, &mut encoded) {
                    Codec::Raw => given.len(),
                    _ => encoded.len(),
                }
            });
            bytes.sum()
        };
        let longest = train(&of(false).collect::<Vec<_>>(), LENGTHS[0]);
        let plainly = judge(None);
        let (mut chosen, mut most) = (None, self.bytes / SAVED_ONE_IN);
        for length in LENGTHS {
            let start = longest.len().saturating_sub(length);
            if start == 0 && length < LENGTHS[0] {
                continue; // it was tried
            }
            let dictionary = longest.get(start..).unwrap_or_default().to_vec();
            let Some(dictionary) = Dictionary::new(dictionary).map(Arc::new) else { continue };
            let Some(encoder) = DictionaryEncoder::new(dictionary.clone()) else { continue };
            let saves = 1.0 - judge(Some(&encoder)) as f64 / plainly.max(1) as f64;
            let saved = (self.bytes as f64 * saves) as u64;
            let saved = saved.saturating_sub(dictionary.to_disk().len() as u64);
            if saved > most {
                (chosen, most) = (Some(Chosen { dictionary, saves }), saved);
            }
        }
        Found(chosen)
    }
}

#[cfg(test)]
mod tests;
