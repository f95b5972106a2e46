//go:build race

package shm

// The race detector makes tests ten times slower and sees no mapped memory.
const raceDetector = true
