//go:build race

package drivertest

// raceDetector leaves worker processes out of cases that goroutines already cover: the race
// detector sees nothing in them, and each takes seconds to start.
const raceDetector = true
