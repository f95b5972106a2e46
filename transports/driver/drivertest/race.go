//go:build race

package drivertest

// raceDetector: with it, cases that repeat what goroutines have shown leave real
// processes out. It sees nothing there, and each of them takes seconds to start.
const raceDetector = true
