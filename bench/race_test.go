//go:build race

package bench

// raceDetector is on: everything takes ten times as long. What it can see of a
// round, other tests show it.
const raceDetector = true
