package models

import (
	"fmt"

	"ipcbench/tensor"
)

// A dict is a list of the entries of a state dictionary.
type dict []tensor.Spec

func (d *dict) add(dtype tensor.DType, name string, shape ...int) {
	*d = append(*d, tensor.Spec{Name: name, DType: dtype, Shape: shape})
}

// layer adds a weight of that shape and a bias.
func (d *dict) layer(name string, bias int, weight ...int) {
	d.add(tensor.F32, name+".weight", weight...)
	d.add(tensor.F32, name+".bias", bias)
}

// conv adds a convolution with square kernels.
func (d *dict) conv(name string, in, out, kernel int) { d.layer(name, out, out, in, kernel, kernel) }

func (d *dict) linear(name string, in, out int) { d.layer(name, out, out, in) }

// batchNorm adds the two parameters, two running statistics and counter of a batch
// normalisation.
func (d *dict) batchNorm(name string, n int) {
	d.layer(name, n, n)
	d.add(tensor.F32, name+".running_mean", n)
	d.add(tensor.F32, name+".running_var", n)
	d.add(tensor.I64, name+".num_batches_tracked")
}

// cnn is the network of PyTorch's tutorial "Training a Classifier".
func cnn() []tensor.Spec {
	var d dict
	d.conv("conv1", 3, 6, 5)
	d.conv("conv2", 6, 16, 5)
	d.linear("fc1", 16*5*5, 120)
	d.linear("fc2", 120, 84)
	d.linear("fc3", 84, 10)
	return d
}

// histology is the network of OpenFL's workspace torch_cnn_histology. Some convolutions
// also use the output of earlier ones, hence 160 and 672 inputs.
func histology() []tensor.Spec {
	var d dict
	for i, c := range [][2]int{{3, 16}, {16, 32}, {32, 64}, {64, 128}, {160, 256}, {256, 512}, {672, 256}, {256, 512}} {
		d.conv(fmt.Sprintf("conv%d", i+1), c[0], c[1], 3)
	}
	d.linear("fc1", 95904, 128)
	d.linear("fc2", 128, 8)
	return d
}

// resnet is a residual network (He et al., 2015) as torchvision saves it, with the given
// numbers of blocks in its four stages. A bottleneck block has three convolutions and
// four times as many channels at its end.
func resnet(bottleneck bool, stages ...int) []tensor.Spec {
	var d dict
	convNorm := func(prefix, conv, norm string, in, out, kernel int) {
		d.add(tensor.F32, prefix+conv+".weight", out, in, kernel, kernel)
		d.batchNorm(prefix+norm, out)
	}
	convNorm("", "conv1", "bn1", 3, 64, 7)
	in, width, expansion := 64, 64, 1
	if bottleneck {
		expansion = 4
	}
	for stage, blocks := range stages {
		for block := range blocks {
			prefix, out := fmt.Sprintf("layer%d.%d.", stage+1, block), width*expansion
			if bottleneck {
				convNorm(prefix, "conv1", "bn1", in, width, 1)
				convNorm(prefix, "conv2", "bn2", width, width, 3)
				convNorm(prefix, "conv3", "bn3", width, out, 1)
			} else {
				convNorm(prefix, "conv1", "bn1", in, width, 3)
				convNorm(prefix, "conv2", "bn2", width, width, 3)
			}
			if block == 0 && (stage > 0 || in != out) {
				convNorm(prefix, "downsample.0", "downsample.1", in, out, 1)
			}
			in = out
		}
		width *= 2
	}
	d.linear("fc", in, 1000)
	return d
}

// gpt2 is GPT-2 (Radford et al., 2019) with the given number of blocks and width, as the
// transformers library's GPT2LMHeadModel lists it: 4 tensors, 12 per block, and
// lm_head.weight. The head is the same matrix as wte.weight, but a state dictionary lists
// both, and a framework that sends entry by entry sends it twice. So GPT-2 large has 437
// entries and 3.35 GB, although its 774,030,080 parameters are 3.1 GB.
func gpt2(blocks, width int) []tensor.Spec {
	const vocabulary, positions = 50257, 1024
	var d dict
	d.add(tensor.F32, "transformer.wte.weight", vocabulary, width)
	d.add(tensor.F32, "transformer.wpe.weight", positions, width)
	for b := range blocks {
		prefix := fmt.Sprintf("transformer.h.%d.", b)
		d.layer(prefix+"ln_1", width, width)
		// The library stores the weights below transposed.
		d.layer(prefix+"attn.c_attn", 3*width, width, 3*width)
		d.layer(prefix+"attn.c_proj", width, width, width)
		d.layer(prefix+"ln_2", width, width)
		d.layer(prefix+"mlp.c_fc", 4*width, width, 4*width)
		d.layer(prefix+"mlp.c_proj", width, 4*width, width)
	}
	d.layer("transformer.ln_f", width, width)
	d.add(tensor.F32, "lm_head.weight", vocabulary, width)
	return d
}

// lora has the adapters of Llama 3 8B for low-rank adaptation (Hu et al., 2021) with rank
// 8 on all linear layers. They are 448 bf16 matrices of 16 to 224 KiB, with the peft
// library's names.
func lora() []tensor.Spec {
	const layers, rank, hidden, keys, inner = 32, 8, 4096, 1024, 14336
	modules := []struct {
		name    string
		in, out int
	}{
		{"self_attn.q_proj", hidden, hidden},
		{"self_attn.k_proj", hidden, keys},
		{"self_attn.v_proj", hidden, keys},
		{"self_attn.o_proj", hidden, hidden},
		{"mlp.gate_proj", hidden, inner},
		{"mlp.up_proj", hidden, inner},
		{"mlp.down_proj", inner, hidden},
	}
	var d dict
	for layer := range layers {
		for _, m := range modules {
			d.adapter(layer, m.name, rank, m.in, m.out)
		}
	}
	return d
}

// adapter adds the two matrices of an adapter of that rank, with the peft library's names.
func (d *dict) adapter(layer int, module string, rank, in, out int) {
	prefix := fmt.Sprintf("base_model.model.model.layers.%d.%s.", layer, module)
	d.add(tensor.BF16, prefix+"lora_A.weight", rank, in)
	d.add(tensor.BF16, prefix+"lora_B.weight", out, rank)
}

// moeLora has the adapters of a mixture-of-experts model in 44 layers, each with attention, 64
// experts and 3 shared ones: 18,040 bf16 matrices of 8 to 16 KiB. SkyRL#1680 sends as many.
func moeLora() []tensor.Spec {
	const layers, experts, rank, hidden, inner = 44, 64 + 3, 4, 2048, 1024
	var d dict
	for layer := range layers {
		for _, name := range []string{"q", "k", "v", "o"} {
			d.adapter(layer, "self_attn."+name+"_proj", rank, hidden, hidden)
		}
		for e := range experts {
			expert := fmt.Sprintf("mlp.experts.%d.", e)
			d.adapter(layer, expert+"gate_proj", rank, hidden, inner)
			d.adapter(layer, expert+"up_proj", rank, hidden, inner)
			d.adapter(layer, expert+"down_proj", rank, inner, hidden)
		}
	}
	return d
}

// vlmBatch is a batch of 32 sequences as a reinforcement learning trainer of a
// vision-language model sends it. It has a few images, cut into patches of 1,176 numbers,
// and many small tensors per sequence. Sequences differ in length. Three of four have no
// image, so their image tensors are empty.
func vlmBatch() []tensor.Spec {
	const sequences, patch = 32, 3 * 2 * 14 * 14
	var d dict
	for s := range sequences {
		name := func(field string) string { return fmt.Sprintf("%d.%s", s, field) }
		tokens, images, patches := 97+(s*389)%1500, 0, 0
		if s%4 == 0 {
			images, patches = 1, 4*(13+s)*27
		}
		d.add(tensor.I64, name("input_ids"), tokens)
		d.add(tensor.Bool, name("attention_mask"), tokens)
		d.add(tensor.U8, name("loss_mask"), tokens)
		d.add(tensor.F32, name("logprobs"), tokens)
		d.add(tensor.F16, name("advantages"), tokens)
		d.add(tensor.I32, name("versions"), tokens)
		d.add(tensor.I16, name("position_ids"), 3, tokens)
		d.add(tensor.BF16, name("pixel_values"), patches, patch)
		d.add(tensor.I64, name("image_grid_thw"), images, 3)
		d.add(tensor.F64, name("reward"))
		d.add(tensor.I8, name("truncated"))
	}
	d.add(tensor.I64, "step")
	return d
}
