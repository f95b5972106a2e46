//go:build race

package shm

// The race detector makes tests ten times slower and does not see mapped memory.
const raceDetector = true
