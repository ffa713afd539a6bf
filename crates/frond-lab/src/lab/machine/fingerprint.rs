//! The environment of a run: the conditions needed to interpret its results, and a hash of the
//! properties that must be equal for results to be comparable.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::device::Volume;
use crate::measure::DeviceNumber;
use crate::targets::Result;

/// Name and value.
pub type Pair = (String, String);

/// CPU time of the whole machine since boot, ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cpu {
    /// Total time.
    pub total: u64,
    /// The part that was idle or waiting for I/O.
    pub idle: u64,
    /// The part that this machine was ready to use and the hypervisor gave to another one.
    pub steal: u64,
}

impl Cpu {
    /// Reads the current values from `/proc/stat`.
    pub fn now() -> Self {
        Self::parse(&fs::read_to_string("/proc/stat").unwrap_or_default()).unwrap_or_default()
    }

    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let words = line.split_whitespace().map(|word| word.parse::<u64>().ok());
        let numbers = words.collect::<Option<Vec<_>>>()?;
        let at = |n: usize| numbers.get(n).copied().unwrap_or(0);
        // The ninth and tenth number, the time of guests, are contained in the first two.
        let total = numbers.iter().take(8).sum();
        Some(Self { total, idle: at(3) + at(4), steal: at(7) })
    }

    /// Percentage of time stolen since `earlier`.
    pub fn steal_percent(&self, earlier: &Self) -> f64 {
        percent(self.steal.saturating_sub(earlier.steal), self.total.saturating_sub(earlier.total))
    }

    /// Percentage of time since `earlier` that was not idle, stolen time included.
    pub fn busy_percent(&self, earlier: &Self) -> f64 {
        let (total, idle) = (self.total - earlier.total.min(self.total), self.idle);
        percent(total.saturating_sub(idle.saturating_sub(earlier.idle)), total)
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}

fn line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Percentage of busy CPU time from which other work on the machine may disturb a measurement.
pub const BUSY_PCT: f64 = 10.0;

/// A warning that other work may have disturbed a run; empty if its environment, as found by name,
/// says that the machine was idle when it began.
pub fn disturbance<'a>(environment: impl Fn(&str) -> Option<&'a str>) -> String {
    let busy = environment("busy_pct").and_then(|busy| busy.parse::<f64>().ok());
    match busy.filter(|busy| *busy >= BUSY_PCT) {
        Some(busy) => format!("The machine was {busy:.0} % busy with other work when it began."),
        None => String::new(),
    }
}

/// Measures the steal and busy percentages of the machine over a quarter of a second.
pub fn cpu_use() -> (f64, f64) {
    let before = Cpu::now();
    std::thread::sleep(Duration::from_millis(250));
    let now = Cpu::now();
    (now.steal_percent(&before), now.busy_percent(&before))
}

/// Used and total swap space, bytes.
pub fn swap_bytes() -> (u64, u64) {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
            * 1024
    };
    let total = of("SwapTotal:");
    (total - of("SwapFree:").min(total), total)
}

/// Memory that can be allocated without swapping, bytes.
pub fn available_bytes() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Collects the environment of a run whose data are in `dir`.
pub fn fingerprint(dir: &Path) -> Result<Vec<Pair>> {
    let volume = Volume::of(dir)?;
    let mut pairs: Vec<Pair> = Vec::new();
    let mut put = |name: &str, value: String| pairs.push((name.to_owned(), value));
    let (cpu, cores) = processor();
    put("cpu", cpu);
    put("cores", cores.to_string());
    put("memory_b", crate::machine::memory_bytes().to_string());
    put("swap_b", swap_bytes().1.to_string());
    put("kernel", crate::machine::kernel());
    put("debian", line("/etc/debian_version").unwrap_or("not Debian".to_owned()));
    for (name, path) in [
        ("governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        ("huge_pages", "/sys/kernel/mm/transparent_hugepage/enabled"),
        ("vendor", "/sys/class/dmi/id/sys_vendor"),
    ] {
        put(name, line(path).unwrap_or("unknown".to_owned()));
    }
    match &volume.disk {
        Some(disk) => {
            put("device", format!("{} ({})", disk.name, disk.number));
            put("device_model", disk.model.clone());
            put("device_b", disk.size_b.to_string());
            put("device_scheduler", disk.scheduler.clone());
            put("device_cache", disk.write_cache.clone());
        }
        None => put("device", "none".to_owned()),
    }
    put("file_system", volume.file_system.clone());
    put("mount_options", volume.options.clone());
    put("space_b", volume.size_b.to_string());
    put("space_free_b", volume.free_b.to_string());
    put("load", crate::machine::load_average());
    let (steal, busy) = cpu_use();
    put("steal_pct", format!("{steal:.1}"));
    put("busy_pct", format!("{busy:.1}"));
    put("steal_pct_since_boot", format!("{:.2}", Cpu::now().steal_percent(&Cpu::default())));
    // Those of this program, not those that are checked out when it runs.
    put("commit", env!("FROND_LAB_COMMIT").to_owned());
    put("dirty", env!("FROND_LAB_DIRTY").to_owned());
    put("build", build());
    put("rustc", env!("FROND_LAB_RUSTC").to_owned());
    put("frond", env!("CARGO_PKG_VERSION").to_owned());
    if let Some(plugin) = crate::lab::sql::process::built_plugin() {
        put("frond ha_frond.so", crate::lab::version::hash_of(&plugin)?);
    }
    Ok(pairs)
}

/// The workspace's Cargo.toml when this program was built, with the profiles.
const MANIFEST: &str = include_str!("../../../../../Cargo.toml");

/// How this program was built.
fn build() -> String {
    let profile = env!("FROND_LAB_PROFILE");
    let of = |name: &str, overridden: &str| match overridden {
        "" => of_profile(MANIFEST, profile, name).unwrap_or_else(|| "default".to_owned()),
        value => value.to_owned(),
    };
    let (lto, units) = (env!("FROND_LAB_LTO"), env!("FROND_LAB_CODEGEN_UNITS"));
    let flags = match env!("FROND_LAB_RUSTFLAGS") {
        "" => "none",
        flags => flags,
    };
    let assertions = if cfg!(debug_assertions) { ", debug assertions" } else { "" };
    format!(
        "{profile}, opt-level {}, lto {}, codegen-units {}, RUSTFLAGS {flags}{assertions}",
        env!("FROND_LAB_OPT_LEVEL"),
        of("lto", lto),
        of("codegen-units", units)
    )
}

/// A setting of a profile in the workspace's Cargo.toml, which may inherit it; `None` if Cargo's
/// default applies. The directory of the profile `dev` is called `debug`.
fn of_profile(manifest: &str, profile: &str, name: &str) -> Option<String> {
    let manifest: toml::Table = manifest.parse().ok()?;
    let profiles = manifest.get("profile")?.as_table()?;
    let mut profile = if profile == "debug" { "dev" } else { profile };
    for _ in 0..=profiles.len() {
        let found = profiles.get(profile)?.as_table()?;
        match found.get(name) {
            Some(toml::Value::String(text)) => return Some(text.clone()),
            Some(value) => return Some(value.to_string()),
            None => profile = found.get("inherits")?.as_str()?,
        }
    }
    None // the profiles inherit from one another
}

fn processor() -> (String, usize) {
    let text = crate::machine::cpu(); // MODEL x CORES
    match text.rsplit_once(" x ") {
        Some((model, cores)) => (model.to_owned(), cores.parse().unwrap_or(1)),
        None => (text, 1),
    }
}

/// A short hash of the properties that must be equal for results to be comparable: CPU model,
/// cores, memory in GiB, kernel release, the device's model and size class, and the file system. It
/// is the same for all runs on one machine, and for machines of identical configuration.
pub fn machine(dir: &Path) -> Result<String> {
    let volume = Volume::of(dir)?;
    let (cpu, cores) = processor();
    let device = volume.disk.as_ref().map(|disk| (disk.model.as_str(), disk.size_b));
    let gib = gib_rounded(crate::machine::memory_bytes());
    let kernel = crate::machine::kernel();
    Ok(hash(&cpu, cores, gib, &kernel, device, &volume.file_system))
}

fn hash(
    cpu: &str,
    cores: usize,
    memory_gib: u64,
    kernel: &str,
    device: Option<(&str, u64)>,
    file_system: &str,
) -> String {
    let (model, size) = device.unwrap_or(("none", 0));
    let class = size.max(1).ilog2();
    let text =
        format!("{cpu}\n{cores}\n{memory_gib}\n{kernel}\n{model}\n2^{class}\n{file_system}\n");
    let hash = xxhash_rust::xxh3::xxh3_64(text.as_bytes());
    format!("{:012x}", hash >> 16)
}

/// Rounds to GiB, since kernels reserve slightly different amounts of the same memory.
fn gib_rounded(bytes: u64) -> u64 {
    (bytes + (1 << 29)) >> 30
}

/// Number of the device that holds `dir`, for the limits and counters of a run.
pub fn device_number(dir: &Path) -> Result<DeviceNumber> {
    Ok(Volume::of(dir)?.disk()?.number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_of_a_result_is_recorded() -> Result<()> {
        let pairs = fingerprint(Path::new(env!("CARGO_MANIFEST_DIR")))?;
        let value = |name: &str| {
            let found = pairs.iter().find(|(found, _)| found == name);
            found.map(|(_, value)| value.as_str()).unwrap_or_else(|| panic!("{name} is missing"))
        };
        assert!(value("memory_b").parse::<u64>().unwrap() > 1 << 28);
        assert!(value("cores").parse::<u64>().unwrap() >= 1);
        assert!(value("rustc").starts_with("rustc 1."), "{}", value("rustc"));
        for part in ["opt-level", "lto", "codegen-units", "RUSTFLAGS"] {
            assert!(value("build").contains(part), "{}", value("build"));
        }
        assert!(value("commit").len() >= 40 || value("commit") == "unknown");
        assert!(value("space_free_b").parse::<u64>().is_ok());
        assert!(["true", "false", "unknown"].contains(&value("dirty")));
        for name in ["cpu", "kernel", "debian", "device", "file_system", "mount_options", "commit"]
        {
            assert!(!value(name).is_empty(), "{name}");
        }
        let mut names: Vec<&str> = pairs.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), pairs.len(), "each name once");
        Ok(())
    }

    #[test]
    fn settings_of_a_profile_are_its_own_or_inherited() {
        let manifest = "[profile.release]\nlto = 'thin'\ncodegen-units = 4\n\
            [profile.quick]\ninherits = 'release'\nlto = false\n\
            [profile.dev]\ncodegen-units = 7\n[profile.a]\ninherits = 'a'\n";
        for (profile, name, expected) in [
            ("release", "lto", Some("thin")),
            ("quick", "lto", Some("false")),
            ("quick", "codegen-units", Some("4")),
            ("debug", "codegen-units", Some("7")),
            ("debug", "lto", None),
            ("bench", "lto", None),
            ("a", "lto", None),
        ] {
            let found = of_profile(manifest, profile, name);
            assert_eq!(found.as_deref(), expected, "{profile} {name}");
        }
        assert!(of_profile(MANIFEST, "release", "lto").is_some());
    }

    #[test]
    fn the_hash_of_a_machine_is_stable_and_changes_with_what_matters() -> Result<()> {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(machine(dir)?, machine(dir)?);
        let disk = Some(("virtio", 256 << 30));
        let base = hash("EPYC", 2, 24, "6.18", disk, "ext4");
        assert_eq!(base, "f0fceb5b3924", "a stored hash must keep its meaning");
        assert_eq!(base, hash("EPYC", 2, 24, "6.18", Some(("virtio", 300 << 30)), "ext4"));
        assert_ne!(base, hash("EPYC", 4, 24, "6.18", disk, "ext4"));
        assert_ne!(base, hash("EPYC", 2, 12, "6.18", disk, "ext4"));
        assert_ne!(base, hash("EPYC", 2, 24, "6.19", disk, "ext4"));
        assert_ne!(base, hash("EPYC", 2, 24, "6.18", Some(("virtio", 600 << 30)), "ext4"));
        assert_ne!(base, hash("EPYC", 2, 24, "6.18", None, "ext4"));
        assert_ne!(base, hash("EPYC", 2, 24, "6.18", disk, "xfs"));
        assert_eq!(gib_rounded(25_276_452_864), 24);
        Ok(())
    }

    #[test]
    fn steal_is_a_share_of_all_time() {
        let before = Cpu::parse("cpu  100 0 50 800 50 0 0 0 7 7\ncpu0 1 2\n").unwrap();
        let after = Cpu::parse("cpu  140 0 60 830 60 0 0 10 9 9\n").unwrap();
        assert_eq!(before, Cpu { total: 1000, idle: 850, steal: 0 });
        assert_eq!(after.steal_percent(&before), 10.0);
        assert_eq!(after.busy_percent(&before), 60.0);
        assert_eq!(after.steal_percent(&after), 0.0);
        assert_eq!(Cpu::parse("cpux"), None);
    }
}
