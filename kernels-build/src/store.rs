//! Keeps lowered bundles between builds: unchanged bitcode is not lowered again.

use crate::bundle::Bundle;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// A folder of bundles, each with the key of what it was made from.
#[derive(Debug)]
pub(crate) struct Store {
    folder: PathBuf,
    /// Hashes of large files, with the length and time that they had.
    hashes: BTreeMap<PathBuf, (u64, u128, u64)>,
    is_changed: bool,
}

impl Store {
    /// Opens a folder; what cannot be read counts as absent.
    pub(crate) fn open(folder: PathBuf) -> Self {
        let text = std::fs::read_to_string(folder.join("hashes")).unwrap_or_default();
        let entries = text.lines().filter_map(|line| {
            let mut fields = line.splitn(4, ' ');
            let mut number = || fields.next()?.parse::<u128>().ok();
            let (len, time, hash) = (number()?, number()?, number()?);
            Some((PathBuf::from(fields.next()?), (len.try_into().ok()?, time, hash.try_into().ok()?)))
        });
        Self { hashes: entries.collect(), folder, is_changed: false }
    }

    /// A key for files and everything else that decides about a result.
    pub(crate) fn key(&mut self, files: &[&Path], rest: impl Hash) -> u64 {
        let mut hasher = DefaultHasher::new();
        rest.hash(&mut hasher);
        for file in files {
            self.file_hash(file).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Hash of a file's contents, remembered while its length and time stay.
    fn file_hash(&mut self, path: &Path) -> Option<u64> {
        let (len, time) = stamp(path)?;
        if let Some((_, _, hash)) =
            self.hashes.get(path).filter(|(old_len, old_time, _)| (*old_len, *old_time) == (len, time))
        {
            return Some(*hash);
        }
        let mut hasher = DefaultHasher::new();
        hasher.write(&std::fs::read(path).ok()?);
        let hash = hasher.finish();
        self.hashes.insert(path.to_owned(), (len, time, hash));
        self.is_changed = true;
        Some(hash)
    }

    /// The bundle of a name, when it was made from the same key.
    pub(crate) fn get(&self, name: &str, key: u64) -> Option<Bundle> {
        Bundle::decode(&self.get_bytes(&format!("{name}.bundle"), key)?).ok()
    }

    /// Keeps a bundle; a folder that cannot be written only costs time.
    pub(crate) fn put(&self, name: &str, key: u64, bundle: &Bundle) {
        self.put_bytes(&format!("{name}.bundle"), key, &bundle.encode());
    }

    /// The bytes of a name, when they were made from the same key.
    pub(crate) fn get_bytes(&self, name: &str, key: u64) -> Option<Vec<u8>> {
        let bytes = std::fs::read(self.folder.join(name)).ok()?;
        let (stored, bytes) = bytes.split_first_chunk()?;
        (u64::from_le_bytes(*stored) == key).then(|| bytes.to_vec())
    }

    /// Keeps bytes; as [`Self::put`].
    pub(crate) fn put_bytes(&self, name: &str, key: u64, bytes: &[u8]) {
        self.write(name, &[&key.to_le_bytes(), bytes].concat());
    }

    /// Writes what was learnt about files.
    pub(crate) fn close(self) {
        if self.is_changed {
            let known = self.hashes.iter().filter(|(path, _)| path.exists());
            let lines = known.map(|(path, (len, time, hash))| format!("{len} {time} {hash} {}\n", path.display()));
            self.write("hashes", lines.collect::<String>().as_bytes());
        }
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        // Whole or not at all: a build that is stopped leaves no half file behind.
        let draft = self.folder.join(format!("{name}.{}", std::process::id()));
        let _ = std::fs::create_dir_all(&self.folder)
            .and_then(|()| std::fs::write(&draft, bytes))
            .and_then(|()| std::fs::rename(&draft, self.folder.join(name)));
    }
}

/// Length and time of a file.
pub(crate) fn stamp(path: &Path) -> Option<(u64, u128)> {
    let metadata = path.metadata().ok()?;
    let time = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some((metadata.len(), time.as_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_is_kept_for_its_key_alone() {
        let folder = std::env::temp_dir().join(format!("warpsmith-store-{}", std::process::id()));
        let mut store = Store::open(folder.clone());
        std::fs::create_dir_all(&folder).expect("a folder");
        let input = folder.join("in put.bc");
        std::fs::write(&input, "one").expect("written");
        let key = store.key(&[&input], [90]);
        let bundle = Bundle { target: "bin a".into(), ..Bundle::default() };
        store.put("bin-a", key, &bundle);
        store.close();
        let mut store = Store::open(folder.clone());
        assert_eq!(store.hashes.len(), 1);
        assert_eq!(store.key(&[&input], [90]), key);
        assert!(!store.is_changed, "the file was not read again");
        assert_ne!(store.key(&[&input], [80]), key);
        assert_eq!(store.get("bin-a", key), Some(bundle));
        assert_eq!(store.get("bin-a", key + 1), None);
        std::fs::write(&input, "another").expect("written");
        assert_ne!(store.key(&[&input], [90]), key);
        std::fs::write(folder.join("bin-a.bundle"), "short").expect("written");
        assert_eq!(store.get("bin-a", key), None);
        std::fs::remove_dir_all(folder).expect("cleaned up");
    }
}
