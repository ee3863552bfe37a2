//! Misbehaviour on purpose: the little language of `ROCM_EMU_SDK_FAULT`, by which the emulated SDK fails as real ones were seen
//! or reported to.
//!
//! Items are separated by `,`, `;` or blanks; `docs/emulated-sdk.md` has the table of them.

use rocprofiler_sdk_sys::Status;
use std::str::FromStr;

/// What goes wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Another tool has the SDK before this process asks.
    pub locked: bool,
    /// HIP never registers with the SDK: no records, no errors.
    pub unregistered: bool,
    /// No GPU driver: no agents.
    pub no_driver: bool,
    /// The SDK sees one agent fewer than HIP, which ends the process when HIP is initialised.
    pub agents_short: bool,
    /// The GPU of this number has no counter definitions.
    pub unsupported_agent: Option<u32>,
    /// The driver refuses counting.
    pub permission_denied: bool,
    /// The device cannot be locked for counting; a line says so and counting goes on.
    pub device_lock: bool,
    /// Every counter reads 0.
    pub zero_counters: bool,
    /// Every counter is this many times too large.
    pub inflate: Option<u64>,
    /// So many records stay behind at the first flush.
    pub late: usize,
    /// Completions are delivered last first, so many at a time.
    pub reorder: usize,
    /// Each group of counter values is split over two callbacks.
    pub split: bool,
    /// Every so-manieth record is lost.
    pub lose: u64,
    /// Every so-manieth record has start and end 0.
    pub zero_time: u64,
    /// Bytes by which trace records are longer.
    pub grow: usize,
    /// So many flushes find the buffer busy.
    pub busy: u64,
    /// The SDK may not be called from a tool's `finalize`: it waits for itself.
    pub finalize_lock: bool,
    /// Functions that do not exist.
    pub missing: Vec<String>,
    /// Functions that end the process.
    pub aborts: Vec<String>,
    /// Functions that never return.
    pub hangs: Vec<String>,
    /// Functions that answer something else, and do nothing.
    pub answers: Vec<(String, Status)>,
}

/// Why a text names no misbehaviour.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{item}` is no fault of the SDK: {reason}. Known are locked, unregistered, no-driver, agents-short, unsupported-agent[=I], \
     permission-denied, device-lock, zero-counters, inflate=F, late=N, reorder[=N], split, lose=N, zero-time=N, grow=BYTES, \
     busy=N, finalize-lock, missing@FUNCTION, abort@FUNCTION, hang@FUNCTION and status@FUNCTION=N"
)]
pub struct FaultsError {
    /// The item.
    pub item: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

/// Most bytes that a record may grow by.
const MOST_GROWTH: u64 = 4096;
/// Most records that may stay behind or change places.
const MOST_RECORDS: u64 = 1 << 20;

impl FromStr for Faults {
    type Err = FaultsError;

    fn from_str(text: &str) -> Result<Self, FaultsError> {
        let mut faults = Faults::default();
        for item in text.split(|c: char| matches!(c, ',' | ';') || c.is_whitespace()).filter(|item| !item.is_empty()) {
            faults.item(item).map_err(|reason| FaultsError { item: item.to_owned(), reason })?;
        }
        Ok(faults)
    }
}

impl Faults {
    fn item(&mut self, item: &str) -> Result<(), &'static str> {
        if let Some((kind, function)) = item.split_once('@') {
            return self.of_function(kind, function);
        }
        let (name, value) = match item.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (item, None),
        };
        let number = |least: u64, most: u64| -> Result<u64, &'static str> {
            let value = value.ok_or("it needs a number, as in `name=3`")?;
            let number = value.parse::<u64>().map_err(|_| "its value is not a whole number")?;
            if (least..=most).contains(&number) { Ok(number) } else { Err("its number is out of range") }
        };
        match name {
            "unsupported-agent" if value.is_none() => self.unsupported_agent = Some(0),
            "unsupported-agent" => self.unsupported_agent = Some(number(0, 255)? as u32),
            "inflate" => self.inflate = Some(number(2, 1 << 32)?),
            "late" => self.late = number(1, MOST_RECORDS)? as usize,
            "reorder" if value.is_none() => self.reorder = 8,
            "reorder" => self.reorder = number(2, MOST_RECORDS)? as usize,
            "lose" => self.lose = number(1, u64::MAX)?,
            "zero-time" => self.zero_time = number(1, u64::MAX)?,
            "grow" => self.grow = number(1, MOST_GROWTH)? as usize,
            "busy" => self.busy = number(1, u64::MAX)?,
            _ => {
                *self.flag(name).ok_or("there is none of this name")? = true;
                if value.is_some() {
                    return Err("it takes no value");
                }
            }
        }
        Ok(())
    }

    fn flag(&mut self, name: &str) -> Option<&mut bool> {
        Some(match name {
            "locked" => &mut self.locked,
            "unregistered" => &mut self.unregistered,
            "no-driver" => &mut self.no_driver,
            "agents-short" => &mut self.agents_short,
            "permission-denied" => &mut self.permission_denied,
            "device-lock" => &mut self.device_lock,
            "zero-counters" => &mut self.zero_counters,
            "split" => &mut self.split,
            "finalize-lock" => &mut self.finalize_lock,
            _ => return None,
        })
    }

    fn of_function(&mut self, kind: &str, function: &str) -> Result<(), &'static str> {
        let (function, value) = match function.split_once('=') {
            Some((function, value)) => (function, Some(value)),
            None => (function, None),
        };
        let function = whole_name(function).ok_or("it needs the name of a function")?;
        match (kind, value) {
            ("missing", None) => self.missing.push(function),
            ("abort", None) => self.aborts.push(function),
            ("hang", None) => self.hangs.push(function),
            ("status", Some(value)) => {
                let status = value.parse::<i32>().map_err(|_| "its value is not a status number")?;
                self.answers.push((function, Status(status)));
            }
            ("status", None) => return Err("it needs a status, as in `status@start_context=40`"),
            ("missing" | "abort" | "hang", Some(_)) => return Err("it takes no value"),
            _ => return Err("there is none of this name"),
        }
        Ok(())
    }
}

/// `start_context` and `rocprofiler_start_context` are the same.
fn whole_name(function: &str) -> Option<String> {
    let name = function.strip_prefix("rocprofiler_").unwrap_or(function);
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name.then(|| format!("rocprofiler_{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_item_of_the_message_is_understood() {
        let text = "locked, unregistered;no-driver agents-short unsupported-agent=1 permission-denied device-lock zero-counters \
                    inflate=3 late=5 reorder=4 split lose=7 zero-time=9 grow=8 busy=2 finalize-lock missing@get_version \
                    abort@rocprofiler_flush_buffer hang@start_context status@stop_context=-3";
        let faults: Faults = text.parse().unwrap();
        let expected = Faults {
            locked: true,
            unregistered: true,
            no_driver: true,
            agents_short: true,
            unsupported_agent: Some(1),
            permission_denied: true,
            device_lock: true,
            zero_counters: true,
            inflate: Some(3),
            late: 5,
            reorder: 4,
            split: true,
            lose: 7,
            zero_time: 9,
            grow: 8,
            busy: 2,
            finalize_lock: true,
            missing: vec!["rocprofiler_get_version".to_owned()],
            aborts: vec!["rocprofiler_flush_buffer".to_owned()],
            hangs: vec!["rocprofiler_start_context".to_owned()],
            answers: vec![("rocprofiler_stop_context".to_owned(), Status(-3))],
        };
        assert_eq!(faults, expected);
        assert_eq!("".parse(), Ok(Faults::default()));
        assert_eq!(
            "unsupported-agent reorder".parse(),
            Ok(Faults { unsupported_agent: Some(0), reorder: 8, ..Faults::default() })
        );
    }

    #[test]
    fn other_items_are_refused_by_name() {
        for item in [
            "melt",
            "late",
            "late=0",
            "late=x",
            "late=-1",
            "split=1",
            "grow=5000",
            "reorder=1",
            "hang",
            "hang@",
            "hang@a-b",
            "hang@f=1",
            "status@f",
            "status@f=x",
            "melt@f",
            "inflate=1",
            "late=99999999999999999999",
        ] {
            let error = item.parse::<Faults>().unwrap_err();
            assert_eq!(error.item, item);
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,60}") {
            let _ = text.parse::<Faults>();
        }

        #[test]
        fn texts_like_items_do_not_panic(text in "([a-z-]{1,12}[=@]?[a-z0-9_=-]{0,8}[,; ]){0,4}") {
            let _ = text.parse::<Faults>();
        }
    }
}
