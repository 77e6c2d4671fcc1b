/** What can be done about a module that a cell could not import. Without JupyterLab's modules, so that it can be tested alone. */
import type { Environments, RuntimeType } from '../records';

/** Modules whose package has another name. */
const PACKAGES: { readonly [module: string]: string } = {
  bs4: 'beautifulsoup4',
  cv2: 'opencv-python-headless',
  dateutil: 'python-dateutil',
  docx: 'python-docx',
  dotenv: 'python-dotenv',
  lightning_fabric: 'lightning',
  PIL: 'pillow',
  pytorch_lightning: 'pytorch-lightning',
  sentence_transformers: 'sentence-transformers',
  skimage: 'scikit-image',
  sklearn: 'scikit-learn',
  torch_geometric: 'torch-geometric',
  umap: 'umap-learn',
  yaml: 'pyyaml'
};
/**
 * Packages that are safe to suggest by the name of their module. Others may be a file of the user, or a name that somebody
 * has registered to be installed by mistake.
 */
const KNOWN = new Set(
  (
    'accelerate albumentations altair bokeh catboost datasets diffusers einops evaluate fastai flax gensim geopandas gradio gymnasium h5py ' +
    'imageio jax keras langchain librosa lightgbm lightning matplotlib mlflow networkx nltk numba numpy openai openpyxl optax optuna pandas peft ' +
    'plotly polars psutil pyarrow requests safetensors scipy seaborn sentencepiece shap spacy statsmodels streamlit sympy tensorboard tensorflow ' +
    'tiktoken timm tokenizers torch torchaudio torchinfo torchmetrics torchvision tqdm transformers ultralytics wandb xgboost'
  ).split(' ')
);

/** What a page can offer. `environment`: the one that lacks the package; '' if it is not known. */
export type PackageOffer = { module: string; package: string; environment: string } & (
  | { kind: 'change'; to: string; type: string }
  | { kind: 'building'; to: string }
  | { kind: 'create'; to: string }
  | { kind: 'install' }
);

/**
 * Return the module that is not installed; null: none is. Python names the first part that it does not find, so that
 * "No module named 'sklearn.externals'" comes from a scikit-learn that is installed and no longer has that part.
 */
export function missingModule({ ename, evalue }: { ename: string; evalue: string }): string | null {
  return ename === 'ModuleNotFoundError' ? (/^No module named '(\w+)'/.exec(evalue)?.[1] ?? null) : null;
}

/** Return the package of a module; null: it is not known. */
export function packageOf(module: string): string | null {
  return PACKAGES[module] ?? (KNOWN.has(module) ? module : null);
}

/** Return what to do about a missing module; null: nothing that this page knows of. `kernel`: the name of the kernel's type. */
export function findOffer(module: string, kernel: string, types: ReadonlyArray<RuntimeType>, environments: Environments | null): PackageOffer | null {
  const wanted = packageOf(module);
  if (wanted === null) {
    return null;
  }
  const type = types.find(({ name }) => name === kernel);
  const base = { module, package: wanted, environment: type?.environment ?? '' };
  const has = (packages: ReadonlyArray<string>): boolean => packages.some(each => nameOf(each) === wanted);
  const others = (environments?.environments ?? []).filter(({ name, packages }) => name !== type?.environment && has(packages));
  for (const { name, status } of others) {
    const target = status === 'ready' ? sameCards(types, name, type) : undefined;
    if (target) {
      return { ...base, kind: 'change', to: name, type: target.name };
    }
  }
  // Of an environment that was just built, the types become known a moment later.
  const isComing = ({ name, status }: (typeof others)[number]): boolean =>
    status === 'building' || status === 'updating' || (status === 'ready' && !types.some(each => each.environment === name));
  const building = others.find(isComing);
  if (building) {
    return { ...base, kind: 'building', to: building.name };
  }
  const preset = environments?.presets.find(({ environment, packages }) => has(packages) && !environments.environments.some(({ name }) => name === environment));
  return preset ? { ...base, kind: 'create', to: preset.environment } : { ...base, kind: 'install' };
}

/** Return the type of an environment that has as many cards as the present one, else the first. */
function sameCards(types: ReadonlyArray<RuntimeType>, environment: string, now: RuntimeType | undefined): RuntimeType | undefined {
  const candidates = types.filter(type => type.environment === environment);
  return candidates.find(type => type.partition === (now?.partition ?? '') && type.kind === (now?.kind ?? null) && type.cards === (now?.cards ?? 0) && type.parts === (now?.parts ?? 0)) ?? candidates[0];
}

/** "Torch==2.13.0" -> "torch". */
function nameOf(requirement: string): string {
  return (/^\s*([\w.-]+)/.exec(requirement)?.[1] ?? '').toLowerCase().replace(/[-_.]+/g, '-');
}
