//! Constants that the host sets: their values per device, and the copies that loaded modules hold.
//!
//! A value set is kept here; it reaches the GPU with the next launch of a kernel that reads it. Every kernel is a module
//! of its own and has its own copy of the constant, which that launch's stream overwrites after all launches of the
//! module so far, on whatever stream, and before those to come. So a launch sees what was set before it was made.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use warpsmith_build::bundle::{ConstantKey, ConstantRecord};
use warpsmith_device::constant::ConstantDesc;
use warpsmith_device::host::ConstantValues;

use crate::driver::{GpuEvent, GpuModule};
use crate::error::{DeviceError, DriverError, LaunchError, ModuleError, Result};
use crate::stream::{GpuQueue, Stream, StreamInner};

/// A value that was set.
#[derive(Clone)]
struct Entry {
    desc: &'static ConstantDesc,
    key: ConstantKey,
    /// The count of sets when it was set: no two values of a device have the same.
    version: u64,
    value: Arc<dyn Any + Send + Sync>, // Invariant: of the constant's type.
}

/// The constants that were set for a device.
#[derive(Default)]
pub(crate) struct ConstantTable {
    /// Changes with every set; 0 while nothing was set.
    sets: AtomicU64,
    values: RwLock<Arc<Values>>,
}

/// The constants as they stand at some point: what a launch sees.
#[derive(Clone, Default)]
pub(crate) struct Values {
    sets: u64,
    entries: Vec<Entry>,
}

impl ConstantTable {
    /// Sets a constant's value.
    pub(crate) fn set(
        &self,
        desc: &'static ConstantDesc,
        value: Arc<dyn Any + Send + Sync>,
    ) -> Result<(), DeviceError> {
        let key = key(desc);
        let mut values = self.values.write().unwrap_or_else(PoisonError::into_inner);
        let mut next = Values::clone(&values);
        next.sets += 1;
        next.entries.retain(|entry| !std::ptr::eq(entry.desc, desc));
        if next.entries.iter().any(|entry| entry.key == key) {
            let ConstantKey { module_path, name, file, line, .. } = key;
            return Err(DeviceError::AmbiguousConstant { constant: format!("{module_path}::{name}"), file, line });
        }
        next.entries.push(Entry { desc, key, version: next.sets, value });
        self.sets.store(next.sets, Ordering::Release);
        *values = Arc::new(next);
        Ok(())
    }

    /// The value that was set for a constant.
    pub(crate) fn value(&self, desc: &ConstantDesc) -> Option<Arc<dyn Any + Send + Sync>> {
        self.current().entry(desc).map(|entry| Arc::clone(&entry.value))
    }

    /// All values as they stand.
    pub(crate) fn current(&self) -> Arc<Values> {
        Arc::clone(&self.values.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Values {
    fn entry(&self, desc: &ConstantDesc) -> Option<&Entry> {
        self.entries.iter().find(|entry| std::ptr::eq(entry.desc, desc))
    }
}

impl ConstantValues for Values {
    fn find(&self, constant: &ConstantDesc) -> Option<*const u8> {
        self.entry(constant).map(|entry| Arc::as_ptr(&entry.value).cast())
    }
}

/// The same for code of the checker, which has its own copies of the descriptions: there a constant is known by its place.
pub(crate) struct ByPlace<'a>(pub(crate) &'a Values);

impl ConstantValues for ByPlace<'_> {
    fn find(&self, constant: &ConstantDesc) -> Option<*const u8> {
        let is_same = |key: &ConstantKey| {
            (key.line, key.column) == (constant.line, constant.column)
                && key.name == constant.name.get()
                && key.file == constant.file.get()
                && key.module_path == constant.module_path.get()
        };
        let entry = self.0.entries.iter().find(|entry| is_same(&entry.key))?;
        Some(Arc::as_ptr(&entry.value).cast())
    }
}

impl fmt::Debug for ConstantTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConstantTable").field("sets", &self.sets).finish_non_exhaustive()
    }
}

/// What names a constant in metadata.
fn key(desc: &ConstantDesc) -> ConstantKey {
    ConstantKey {
        module_path: desc.module_path.get().to_owned(),
        name: desc.name.get().to_owned(),
        file: desc.file.get().to_owned(),
        line: desc.line,
        column: desc.column,
    }
}

/// The constants in a loaded module.
#[derive(Debug)]
pub(crate) struct ModuleConstants {
    constants: Vec<ModuleConstant>,
    state: Mutex<State>,
}

/// A constant's variable in a loaded module.
#[derive(Debug)]
struct ModuleConstant {
    record: &'static ConstantRecord,
    address: u64,
}

/// Which values the variables hold once the work given so far is done, and who uses them.
#[derive(Default)]
struct State {
    /// The sets of the device's table that the variables are up to date with.
    sets: u64,
    /// The version of each variable's value; 0 for the declared one.
    versions: Vec<u64>,
    /// Passed when the last change is done; nothing to wait for before the first.
    changed: Option<GpuEvent>,
    /// The streams whose launches come after the last change and before the next.
    users: Vec<(u64, Weak<StreamInner>)>,
    /// Whether a stream was dropped whose launches may go on.
    lost_users: bool,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("sets", &self.sets).field("versions", &self.versions).finish_non_exhaustive()
    }
}

/// Holds a module's constants as they are until the launch was given to the driver.
#[must_use]
pub(crate) struct Held<'a>(#[expect(dead_code, reason = "its drop is what matters")] MutexGuard<'a, State>);

impl ModuleConstants {
    /// Above so many streams, those that are gone are forgotten.
    const MANY_USERS: usize = 16;

    /// Finds the variables of a module that was just loaded.
    pub(crate) fn find(module: &GpuModule, records: &'static [ConstantRecord]) -> Result<Self, DriverError> {
        let mut constants = Vec::new();
        for record in records {
            constants.push(ModuleConstant { record, address: module.global(&record.symbol)? });
        }
        let versions = vec![0; constants.len()];
        Ok(Self { constants, state: Mutex::new(State { versions, ..State::default() }) })
    }

    /// Orders a launch on `stream` after the last change of the module's constants, which it makes where a constant was
    /// set since.
    pub(crate) fn prepare(&self, stream: &Stream, queue: &GpuQueue, kernel: &str) -> Result<Held<'_>> {
        let refused = |source: DriverError| LaunchError::Constants { kernel: kernel.to_owned(), source };
        let table = stream.device().constants();
        let mut held = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *held;
        if table.sets.load(Ordering::Acquire) != state.sets {
            let values = table.current();
            let stale = self.stale(state, &values, kernel)?;
            if !stale.is_empty() {
                state.wait_for_users(stream, queue).map_err(refused)?;
                for (index, entry) in &stale {
                    let from = Arc::as_ptr(&entry.value).cast::<u8>();
                    let ModuleConstant { record, address } = &self.constants[*index];
                    let bytes = usize::try_from(record.size).expect("constants were checked to fit the `.const` space");
                    // SAFETY: the variable has that many bytes, and no launch that reads it is under way: this stream
                    // waits for all of them, and later ones wait for this stream. The value has as many, as was checked;
                    // it is not page-locked, so that the driver has read it when this returns.
                    unsafe { queue.stream.copy_from_host(*address, from, bytes) }.map_err(refused)?;
                }
                state.mark_change(stream, queue).map_err(refused)?;
                // Only now: what failed half-way is done again.
                for (index, entry) in stale {
                    state.versions[index] = entry.version;
                }
            }
            state.sets = values.sets;
        }
        state.enter(stream, queue).map_err(refused)?;
        Ok(Held(held))
    }

    /// The variables that hold another value than was set.
    fn stale<'v>(
        &self,
        state: &State,
        values: &'v Values,
        kernel: &str,
    ) -> Result<Vec<(usize, &'v Entry)>, ModuleError> {
        let mut stale = Vec::new();
        for (index, ModuleConstant { record, .. }) in self.constants.iter().enumerate() {
            let Some(entry) = values.entries.iter().find(|entry| entry.key == record.key) else { continue };
            let desc = entry.desc;
            if (record.size, record.align, record.layout) != (desc.size, desc.align, desc.layout) {
                return Err(ModuleError::ConstantMismatch {
                    kernel: kernel.to_owned(),
                    constant: format!("{}::{}", record.key.module_path, record.key.name),
                    host_bytes: desc.size,
                    device_bytes: record.size,
                });
            }
            if state.versions[index] != entry.version {
                stale.push((index, entry));
            }
        }
        Ok(stale)
    }
}

impl State {
    /// Lets the stream wait for all launches that read the constants as they are.
    fn wait_for_users(&mut self, stream: &Stream, queue: &GpuQueue) -> Result<(), DriverError> {
        // A change that failed half-way left its own stream among the users.
        self.enter(stream, queue)?;
        for (id, user) in &self.users {
            if *id == stream.inner().id() {
                continue;
            }
            match user.upgrade() {
                Some(user) => stream.inner().wait_for(&user)?,
                None => self.lost_users = true,
            }
        }
        if self.lost_users {
            queue.stream.gpu().synchronize()?;
            self.lost_users = false;
        }
        Ok(())
    }

    /// Notes that the stream has changed the constants at this point.
    fn mark_change(&mut self, stream: &Stream, queue: &GpuQueue) -> Result<(), DriverError> {
        let event = match self.changed.take() {
            Some(event) => event,
            None => GpuEvent::new(queue.stream.gpu(), false)?,
        };
        event.record(&queue.stream)?;
        self.changed = Some(event);
        self.users.clear();
        self.users.push((stream.inner().id(), Arc::downgrade(stream.inner())));
        Ok(())
    }

    /// Lets the stream wait for the last change, once, and notes it as a user.
    fn enter(&mut self, stream: &Stream, queue: &GpuQueue) -> Result<(), DriverError> {
        let id = stream.inner().id();
        if self.users.iter().any(|(user, _)| *user == id) {
            return Ok(());
        }
        if let Some(event) = &self.changed {
            queue.stream.wait(event)?;
        }
        if self.users.len() >= ModuleConstants::MANY_USERS {
            let before = self.users.len();
            self.users.retain(|(_, user)| user.strong_count() > 0);
            self.lost_users |= self.users.len() < before;
        }
        self.users.push((id, Arc::downgrade(stream.inner())));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Constant, Device, DeviceError, Error, constant};

    constant! {
        static LEVEL: f32 = 0.5;
    }

    #[test]
    fn a_device_has_the_declared_value_until_another_is_set() {
        let device = Device::cpu();
        assert_eq!(device.constant(&LEVEL), 0.5);
        for value in [2.0, 3.0] {
            device.set_constant(&LEVEL, &value).unwrap();
            assert_eq!(device.constant(&LEVEL), value);
        }
    }

    #[test]
    fn constants_that_cannot_be_told_apart_are_refused() {
        macro_rules! twice {
            () => {{
                constant! {
                    static SAME: u32 = 1;
                }
                &SAME
            }};
        }
        let pair: [&'static Constant<u32>; 2] = [0, 1].map(|at| if at == 0 { twice!() } else { twice!() });
        let device = Device::cpu();
        device.set_constant(pair[0], &2).unwrap();
        // They stand in two places here, so they differ.
        device.set_constant(pair[1], &3).unwrap();
        assert_eq!((device.constant(pair[0]), device.constant(pair[1])), (2, 3));
        macro_rules! both {
            () => {
                [
                    {
                        constant! {
                            static SAME: u32 = 1;
                        }
                        &SAME
                    },
                    {
                        constant! {
                            static SAME: u32 = 1;
                        }
                        &SAME
                    },
                ]
            };
        }
        let pair: [&'static Constant<u32>; 2] = both!();
        device.set_constant(pair[0], &2).unwrap();
        let error = device.set_constant(pair[1], &3).unwrap_err();
        assert!(matches!(error, Error::Device(DeviceError::AmbiguousConstant { .. })), "{error}");
        assert!(error.to_string().contains("SAME"), "{error}");
        assert_eq!((device.constant(pair[0]), device.constant(pair[1])), (2, 1));
    }
}
