//! Writing a run into its extent: blocks, then the footer directly after them, in one vectored
//! write. Nothing is written if the footer could not be read again.

use std::io::IoSlice;

use super::{
    footer::Footer,
    reader::{Data, Run},
};
use crate::{
    block::Format,
    bounds,
    cache::FrameBuf,
    error::{Error, Result},
    io::ALIGN,
    page::{
        FEATURE_ALPHABETS, FEATURE_COLUMNAR_RUNS, FEATURE_DICTIONARIES, FEATURE_TEMPLATES,
        FEATURE_TRANSPOSED_BLOCKS, Identity, Link, PageKind, StoreFile, page_hash, sealed,
    },
    sync::Arc,
    types::{Lineage, VersionNumber},
};

impl Run {
    /// Writes the run at `offset`, where [`extent_bytes`](Run::extent_bytes) are reserved for it,
    /// and returns its link. Readers continue with the frames until
    /// [`set_written`](Run::set_written).
    ///
    /// If the run was written before, its link is returned unchanged, and nothing is written.
    pub fn write(
        &self,
        file: &StoreFile,
        offset: u64,
        birth: VersionNumber,
        lineage: Lineage,
    ) -> Result<Link> {
        let data = self.data.load_full();
        let data = match &*data {
            Data::Unwritten(data) => data,
            Data::Written { link, .. } => return Ok(*link),
        };
        if let Format::Columnar(format) = self.format() {
            let templates = if format.has_templates() { FEATURE_TEMPLATES } else { 0 };
            let alphabets = if format.has_alphabets() { FEATURE_ALPHABETS } else { 0 };
            file.require(FEATURE_COLUMNAR_RUNS | templates | alphabets);
        }
        if self.footer.has_transposed() {
            file.require(FEATURE_TRANSPOSED_BLOCKS);
        }
        if self.footer.dictionary.is_some() {
            file.require(FEATURE_DICTIONARIES);
        }
        let bytes = self.extent_bytes();
        let identity =
            Identity { store: file.store, kind: PageKind::Run, offset, bytes, birth, lineage };
        let mut footer = self.footer.to_disk(&identity);
        assert!(
            footer.len() <= self.footer_bytes as usize,
            "a footer's length does not depend on place"
        );
        footer.resize(self.footer_bytes as usize, 0);
        if !plant!("run: a footer is written unread") {
            sealed("the footer of a run", self.read_again(&identity, &footer))?;
        }
        let hash = page_hash(&identity, &footer);

        // Direct I/O writes whole pages: the page that data and footer share is assembled
        // separately.
        let whole = data.len() / ALIGN * ALIGN;
        let mut end = FrameBuf::new(self.pool.clone());
        let mut joined = Vec::new();
        end.extend(data.get(whole..data.len(), &mut joined));
        end.extend(&footer);
        drop(footer);
        let mut left = whole;
        let blocks = data.slices().map(|slice| {
            let now = slice.len().min(left);
            left -= now;
            &slice[..now]
        });
        let slices: Vec<IoSlice<'_>> = blocks
            .filter(|slice| !slice.is_empty())
            .chain(end.slices())
            .map(IoSlice::new)
            .collect();
        file.file
            .write_vectored_at(&slices, offset)
            .map_err(|e| Error::io(file.path(), "write", offset, e))?;
        Ok(Link { offset, bytes, footer_bytes: self.footer_bytes, hash, birth, lineage })
    }

    /// Reads a footer of this run as [`open`](Run::open) does; the error says why it cannot be
    /// read.
    fn read_again(&self, identity: &Identity, footer: &[u8]) -> Result<(), String> {
        if footer.len() > bounds::RUN_FOOTER_BYTES.len() {
            return Err(format!("{} bytes are more than a footer may have", footer.len()));
        }
        let read = Footer::from_disk(identity, footer).map_err(|flaw| flaw.to_string())?;
        if read.data_bytes as usize + footer.len() != identity.bytes as usize {
            return Err("its data is not as long as its link says".into());
        }
        debug_assert!(
            footer.starts_with(&read.to_disk(identity)),
            "what is read of a footer is what was written"
        );
        Ok(())
    }

    /// From now on blocks are read from the file. The frames are freed when the last reader
    /// releases them.
    pub fn set_written(&self, file: Arc<StoreFile>, link: Link) {
        self.data.store(Arc::new(Data::Written { file, link }));
    }
}
